/** Errors of the HTTP API. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** Meaning and remedy of each code. */
export const saltApiErrors = {
  ERR_HTTP_ADDRESS: {
    meaning: 'The HTTP request comes from an address that authorized_ips does not list.',
    action: 'If the address may use the API, add it or its network to authorized_ips.',
  },
  ERR_HTTP_BODY: {
    meaning: 'The body of an HTTP request cannot be parsed, is too large, or contains no command.',
    action: 'Send the data that the message describes; docs/salt-api.md lists the limits.',
  },
  ERR_HTTP_BUSY: {
    meaning:
      'The HTTP API has reached a limit for connections, request data or worker threads, of this address or in total.',
    action: 'Retry after the number of seconds in the header Retry-After.',
    retry: true,
  },
  ERR_HTTP_CLIENT: {
    meaning:
      'The field `client` of a command is missing, or the request needs a client that is not served.',
    action: 'Use one of the clients that GET / lists; netapi_enable_clients may exclude some.',
  },
  ERR_HTTP_FIELDS: {
    meaning: 'A command lacks a field, or a field has an invalid value.',
    action:
      'Send the value that the message describes; docs/salt-api.md lists the fields of each client.',
  },
  ERR_HTTP_FORMAT: {
    meaning:
      'The HTTP API does not support the format of the body, or none of the formats in the header Accept.',
    action: 'Use application/json or application/x-yaml, and do not compress the body.',
  },
  ERR_HTTP_HOST: {
    meaning: 'The HTTP request uses a host name under which the API is not served.',
    action: 'Use a name that the option hosts of the API lists, or add the name to it.',
  },
  ERR_HTTP_LISTEN: {
    meaning: 'The HTTP API cannot listen: its port is in use, or one of its files cannot be read.',
    action: 'Follow the message; the options are those of rest_cherrypy.',
  },
  ERR_HTTP_SESSION: {
    meaning: 'The HTTP request has no token, or an invalid one.',
    action: 'Log in again, and send the token in X-Auth-Token.',
  },
  ERR_HTTP_STREAMS: {
    meaning:
      'The maximum number of event streams is open, in total, for one user or for one session.',
    action: 'Close some streams, or raise streams or streams_per_token.',
    retry: true,
  },
  ERR_HTTP_TIMEOUT: {
    meaning: 'A runner did not end within rest_timeout. It is still running.',
    action: 'Use runner_async and follow its events, or raise rest_timeout.',
  },
  ERR_HTTP_UNKNOWN: {
    meaning:
      'The HTTP API has no resource at this path, or the resource does not support the method.',
    action: 'See docs/salt-api.md for the paths and methods.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Codes of the errors of the HTTP API. docs/errors.md has the causes and remedies. */
export type SaltApiErrorCode = keyof typeof saltApiErrors;

const usualStatus: Readonly<Record<SaltApiErrorCode, number>> = {
  ERR_HTTP_ADDRESS: 403,
  ERR_HTTP_BODY: 400,
  ERR_HTTP_BUSY: 503,
  ERR_HTTP_CLIENT: 400,
  ERR_HTTP_FIELDS: 400,
  ERR_HTTP_FORMAT: 406,
  ERR_HTTP_HOST: 421,
  ERR_HTTP_LISTEN: 500,
  ERR_HTTP_SESSION: 401,
  ERR_HTTP_STREAMS: 429,
  ERR_HTTP_TIMEOUT: 504,
  ERR_HTTP_UNKNOWN: 404,
};

/** Error of a rejected request. The message contains no values of the request. */
export class SaltApiError extends SaltbridgeError<SaltApiErrorCode> {
  /** HTTP status code. */
  readonly status: number;

  constructor(
    code: SaltApiErrorCode,
    message: string,
    options?: ErrorOptions & { status?: number },
  ) {
    super(code, message, options);
    this.status = options?.status ?? usualStatus[code];
  }
}
