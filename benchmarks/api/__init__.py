"""Every route, as each role, with whatever schemathesis makes of the OpenAPI document.

No answer may be a server error, nor one that the document does not describe, by its code, its
content type, its headers and its schema. Calls are made once and sent under each role's key, right
ones and wrong ones; most of what names something names what is there, for a made-up id only ever
shows how a route says 404.
"""
