/**
 * Types of transports: the contents of a row in `transports.ts`, and the arguments of its
 * functions.
 */

import type { HttpResult, OutgoingRequest } from '#runtime';
import type { DeliveryOutcome } from '../openstack/service-answer.ts';
import type { Signal } from '../signals/signal.ts';

/** Sends a request to a listed endpoint. */
export type Ask = (request: OutgoingRequest) => Promise<HttpResult>;

/** Exposure of a destination's field in logs, responses and records. */
export type Secrecy =
  | 'open'
  /** The whole value is secret. */
  | 'secret'
  /** A URL whose full text, query and long query values are secret. */
  | 'signed-address';

/** Names of the fields of a destination, in any of its forms. */
type FieldOf<D> = D extends unknown ? Exclude<keyof D, 'transport'> : never;

/** Exposure of each field of a destination. */
export type SecrecyOf<D> = Readonly<Record<FieldOf<D>, Secrecy>>;

/** Functions that send signals of minions to a handle. */
export interface HandleUse<D> {
  /**
   * Parses Heat's attribute of a handle.
   * @param form - text, or a map
   * @returns `undefined` if the form belongs to another transport
   * @throws BridgeError ERR_HANDLE_FORM, without any part of the form in its message
   */
  readonly parse: (form: unknown) => D | undefined;
  /** Returns the URL of the service, which must be a listed endpoint. */
  readonly address: (destination: D) => string;
  /** Whether the service responds before it has stored the signal. */
  readonly storesAfterReply: boolean;
  /** Attempts one delivery. */
  readonly deliver: (delivery: Delivery<D>) => Promise<DeliveryOutcome>;
}

/** Functions that send the result of a deployment to Heat. */
export interface ResultUse<D> {
  /**
   * Parses the inputs that Heat adds to a deployment. Returns `undefined` if one is missing.
   * Templates cannot choose a transport without this function.
   */
  readonly parse?: (input: HeatInput) => D | undefined;
  /** Maximum size of the result, in bytes of JSON. */
  readonly maxBytes: number;
  /** Attempts one delivery. */
  readonly deliver: (delivery: ResultDelivery<D>) => Promise<DeliveryOutcome>;
}

/** Returns an input that Heat adds to a deployment, by its name without `deploy_`. */
export type HeatInput = (name: string) => string | undefined;

/** Signal of a minion, and its destination. */
export interface Delivery<D> {
  readonly destination: D;
  /** Stored signal, the same for each attempt. */
  readonly record: {
    readonly id: string;
    readonly alias: string;
    readonly minion: string;
    readonly member?: string;
    readonly signal: Signal;
  };
  /** Id under which Heat counts the signal. */
  readonly signalId: string;
  /** Number of failed attempts since the process started. */
  readonly failures: number;
  /** Expiry of the handle, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly now: () => number;
  readonly ask: Ask;
  /** Keystone tokens of handles, by alias and user. */
  readonly tokens: Map<string, string>;
}

/** Result of a deployment, and its destination. */
export interface ResultDelivery<D> {
  readonly destination: D;
  /** Id of the deployment. */
  readonly id: string;
  readonly serverId: string;
  /** Resource to signal, if a stack created the deployment. */
  readonly resource?: { readonly stackPath: string; readonly name: string };
  /** Result in JSON. */
  readonly body: string;
  readonly ask: Ask;
  /** Sends a request as the owner of the stack; `undefined` if the stack has no login. */
  readonly askAsOwner: AskAsOwner | undefined;
  /** Accepts a signal as if the minion had fired it. Resolves when it is durable. */
  readonly signalHandle: (alias: string, signal: ResultSignal) => Promise<DeliveryOutcome>;
}

/** URLs of services in the catalog of a login. `undefined` if the catalog lacks one. */
interface ServiceUrls {
  /** URL of heat-api, with the project. */
  readonly heat: string | undefined;
  readonly zaqar: string | undefined;
}

/**
 * Sends a request as the owner of a stack.
 * @param request - creates the request from the URLs of the catalog; returns `undefined` if the
 * service is missing
 */
type AskAsOwner = (
  request: (urls: ServiceUrls) => OutgoingRequest | undefined,
) => Promise<HttpResult>;

/** Result in the form of a minion's signal. */
interface ResultSignal {
  readonly status: 'FAILURE' | 'SUCCESS';
  readonly reason: string;
  readonly data: string;
}
