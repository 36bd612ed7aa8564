/** Why the HTTP API refuses a request. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** What each code means to the person who meets it. */
export const saltApiErrors = {
  ERR_HTTP_ADDRESS: {
    meaning: 'The HTTP request comes from an address that authorized_ips does not list.',
    action: 'Add it, or the network that it is of, if it may use the API.',
  },
  ERR_HTTP_BODY: {
    meaning: 'The body of an HTTP request cannot be read, is too large, or holds no commands.',
    action: 'Send what the message expects; docs/salt-api.md has the limits.',
  },
  ERR_HTTP_BUSY: {
    meaning: 'The HTTP API reads as much at once as it may, from this address or from all.',
    action: 'Send the request again after the seconds of Retry-After.',
    retry: true,
  },
  ERR_HTTP_CLIENT: {
    meaning: 'A command names no client, or one that is not served.',
    action: 'Use one of those that GET / lists; netapi_enable_clients may leave some out.',
  },
  ERR_HTTP_FIELDS: {
    meaning: 'A command lacks a field, or one has a value that it cannot have.',
    action: 'Send what the message expects; docs/salt-api.md has the fields of each client.',
  },
  ERR_HTTP_FORMAT: {
    meaning: 'The HTTP API speaks neither the format of the body nor one that is accepted.',
    action: 'Use application/json or application/x-yaml, and uncompressed bodies.',
  },
  ERR_HTTP_HOST: {
    meaning: 'The HTTP request asks for a host by a name that the API is not served under.',
    action: 'Ask by one that is, or add the name to hosts of the API.',
  },
  ERR_HTTP_LISTEN: {
    meaning: 'The HTTP API cannot listen: its port is taken, or a file of it cannot be read.',
    action: 'Do what the message says; the options are those of rest_cherrypy.',
  },
  ERR_HTTP_SESSION: {
    meaning: "The HTTP request is nobody's: no token, or none that is valid.",
    action: 'Log in again, and send the token in X-Auth-Token.',
  },
  ERR_HTTP_STREAMS: {
    meaning: 'As many event streams as are served, in all or to one log-in, are open.',
    action: 'Close some, or raise streams or streams_per_token.',
    retry: true,
  },
  ERR_HTTP_TIMEOUT: {
    meaning: 'A runner did not end within rest_timeout; it goes on.',
    action: 'Use runner_async and follow its events, or raise rest_timeout.',
  },
  ERR_HTTP_UNKNOWN: {
    meaning: 'The HTTP API has nothing at this path, or does not take this method there.',
    action: 'See docs/salt-api.md for what there is.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

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

/** A request is refused; nothing of it is in the text. */
export class SaltApiError extends SaltbridgeError<SaltApiErrorCode> {
  /** HTTP's. */
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
