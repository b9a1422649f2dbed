"""From a frame to a handler and back: decode, authorize, run, answer; and the one place that knows of `NotResident`.

A frame that does not decode, an API that is not served or a version that does not exist closes the connection that sent
it, as Kafka does; only ApiVersions answers an unsupported version, in version 0 with what is supported.
An error in a handler is answered with the API's error response.
"""
