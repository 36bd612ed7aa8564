/** Types of the rows in `transports.ts`, and of the arguments of their functions. */

import type { HttpResult, OutgoingRequest } from '#runtime';
import type { DeliveryOutcome } from '../openstack/service-answer.ts';
import type { Signal } from '../signals/signal.ts';

/** Function that sends a request to a listed endpoint. */
export type Ask = (request: OutgoingRequest) => Promise<HttpResult>;

/**
 * Secrecy of a field of a destination. It determines what logs, responses and records may contain.
 */
export type Secrecy =
  | 'open'
  /** The whole value is secret: logs, responses and records must not contain any part of it. */
  | 'secret'
  /**
   * Pre-signed URL. These parts are secret: the complete URL, its query, and each value of at least
   * 16 characters in the query.
   */
  | 'signed-address';

/** Names of all fields that a destination may have. */
type FieldOf<D> = D extends unknown ? Exclude<keyof D, 'transport'> : never;

/** For each field of a destination, whether and how the field is secret. */
export type SecrecyOf<D> = Readonly<Record<FieldOf<D>, Secrecy>>;

/** Functions of a transport that deliver signals of minions to handles. */
export interface HandleUse<D> {
  /**
   * Parses an attribute of a handle that Heat returned.
   * @param form - text, or a map
   * @returns `undefined` if the form belongs to another transport
   * @throws BridgeError ERR_HANDLE_FORM; its message contains no part of the form
   */
  readonly parse: (form: unknown) => D | undefined;
  /**
   * Returns the URL of the service that receives the signals. Signals are sent only if the
   * configuration lists the endpoint of this URL.
   */
  readonly address: (destination: D) => string;
  /**
   * Whether the service responds before it has stored a signal. The service can then store signals
   * in the wrong order.
   */
  readonly storesAfterReply: boolean;
  /** Makes one attempt to deliver a signal. */
  readonly deliver: (delivery: Delivery<D>) => Promise<DeliveryOutcome>;
}

/** Functions of a transport for delivering the results of deployments to Heat. */
export interface ResultUse<D> {
  /**
   * Parses the inputs that Heat adds to a deployment. Returns `undefined` if an input is missing.
   * Absent if templates cannot select the transport.
   */
  readonly parse?: (input: HeatInput) => D | undefined;
  /** Maximum size of the result of a deployment as JSON, in bytes. */
  readonly maxBytes: number;
  /** Makes one attempt to deliver a result. */
  readonly deliver: (delivery: ResultDelivery<D>) => Promise<DeliveryOutcome>;
}

/**
 * Returns the value of an input that Heat adds to a deployment. The name of the input is given
 * without the prefix `deploy_`.
 */
export type HeatInput = (name: string) => string | undefined;

/** Signal of a minion, with its destination. */
export interface Delivery<D> {
  readonly destination: D;
  /** Fields of the stored signal. Each attempt sends the same values. */
  readonly record: {
    readonly id: string;
    readonly alias: string;
    readonly minion: string;
    readonly member?: string;
    readonly signal: Signal;
  };
  /** Id under which Heat stores the signal. */
  readonly signalId: string;
  /** Number of failed attempts since the process started. */
  readonly failures: number;
  /** Expiry of the handle, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly now: () => number;
  readonly ask: Ask;
  /** Cached Keystone tokens. Each key is a digest of a handle's credentials. */
  readonly tokens: HandleTokens;
}

/** Cached Keystone tokens of the handles of one owner. */
export interface HandleTokens {
  get(key: string): string | undefined;
  /** Caches a token. Another token may be evicted. Its handle then logs in again. */
  set(key: string, token: string): void;
  delete(key: string): void;
}

/** Result of a deployment, with its destination. */
export interface ResultDelivery<D> {
  readonly destination: D;
  /** Id of the deployment. */
  readonly id: string;
  readonly serverId: string;
  /** Resource to signal. Absent if no stack created the deployment. */
  readonly resource?: { readonly stackPath: string; readonly name: string };
  /** Result of the deployment, as JSON text. */
  readonly body: string;
  readonly ask: Ask;
  /**
   * Sends a request with the login of the stack's owner. `undefined` if the stack is registered
   * without a login.
   */
  readonly askAsOwner: AskAsOwner | undefined;
  /**
   * Accepts a signal for a handle as if it came from the minion on which the deployment ran.
   * Resolves when the signal is durable.
   */
  readonly signalHandle: (alias: string, signal: ResultSignal) => Promise<DeliveryOutcome>;
}

/**
 * URLs of services in the service catalog of a login. A URL is `undefined` if the catalog does not
 * contain the service.
 */
interface ServiceUrls {
  /** URL of heat-api, with the id of the project in its path. */
  readonly heat: string | undefined;
  readonly zaqar: string | undefined;
}

/**
 * Sends a request with the login of a stack's owner.
 * @param request - creates the request from the URLs of the service catalog; returns `undefined` if
 * the catalog does not contain the service
 */
type AskAsOwner = (
  request: (urls: ServiceUrls) => OutgoingRequest | undefined,
) => Promise<HttpResult>;

/** Result of a deployment in the form of a minion's signal. */
interface ResultSignal {
  readonly status: 'FAILURE' | 'SUCCESS';
  readonly reason: string;
  readonly data: string;
}
