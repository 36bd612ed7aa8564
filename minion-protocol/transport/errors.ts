/** What goes wrong on the way, for either end of any transport. */

/** Codes of {@link TransportError}. */
export type TransportErrorCode =
  | 'ERR_LISTEN'
  | 'ERR_TLS'
  | 'ERR_CONNECT'
  | 'ERR_TIMEOUT'
  | 'ERR_CLOSED';

/** What a code means, for people. */
export interface TransportErrorEntry {
  readonly meaning: string;
  readonly action: string;
  /** Whether the same call may succeed later. */
  readonly retry: boolean;
}

export const transportErrors: Readonly<Record<TransportErrorCode, TransportErrorEntry>> = {
  ERR_LISTEN: {
    meaning: 'A port could not be bound.',
    action:
      'Stop whatever holds the port (another master?), or set interface, ret_port or publish_port.',
    retry: true,
  },
  ERR_TLS: {
    meaning: 'A certificate, key or list of ciphers for TLS cannot be read or used.',
    action: 'Correct keyfile, certfile, ca_certs and ciphers of the ssl option.',
    retry: false,
  },
  ERR_CONNECT: {
    meaning: 'The address of the master is no address, or nobody listens there.',
    action: 'Check the host and the port of the master.',
    retry: true,
  },
  ERR_TIMEOUT: {
    meaning: 'No answer came in time; whether the request arrived is not known.',
    action: 'Check that the master runs and is reachable, then ask again.',
    retry: true,
  },
  ERR_CLOSED: {
    meaning: 'This transport was closed, or is used before it listens.',
    action: 'Make a new one.',
    retry: false,
  },
};

/** A transport could not do what was asked. `cause` is what the system or ZeroMQ said. */
export class TransportError extends Error {
  readonly code: TransportErrorCode;

  static {
    TransportError.prototype.name = TransportError.name;
  }

  constructor(code: TransportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** `host:port`, with brackets around an IPv6 address. */
export function hostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
