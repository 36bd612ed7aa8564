/** The form of a transport: what its row in `transports.ts` declares, and what its functions get. */

import type { HttpResult, OutgoingRequest } from '#runtime';
import type { DeliveryOutcome } from '../openstack/service-answer.ts';
import type { Signal } from '../signals/signal.ts';

/** Sends a request to a listed endpoint. */
export type Ask = (request: OutgoingRequest) => Promise<HttpResult>;

/** How much of a destination's field may appear in logs, answers and records. */
export type Secrecy =
  | 'open'
  /** The whole value. */
  | 'secret'
  /** An address: all of it, its query, and each long value in the query. */
  | 'signed-address';

/** Fields of a destination, in any of its forms. */
type FieldOf<D> = D extends unknown ? Exclude<keyof D, 'transport'> : never;

/** The secrecy of each field of a destination. */
export type SecrecyOf<D> = Readonly<Record<FieldOf<D>, Secrecy>>;

/** How signals of minions are sent to a handle. */
export interface HandleUse<D> {
  /**
   * Reads what Heat gives for a handle.
   * @param form - text, or a map
   * @returns `undefined` if the form belongs to another transport
   * @throws BridgeError ERR_HANDLE_FORM, without any part of the form in its text
   */
  readonly parse: (form: unknown) => D | undefined;
  /** Address of the service, which must be a listed endpoint. */
  readonly address: (destination: D) => string;
  /** Whether the service answers before it has stored the signal. */
  readonly storesAfterReply: boolean;
  /** Tries once. */
  readonly deliver: (delivery: Delivery<D>) => Promise<DeliveryOutcome>;
}

/** How the result of a deployment is sent to Heat. */
export interface ResultUse<D> {
  /**
   * Reads the inputs that Heat adds to a deployment; `undefined` if one is missing.
   * A transport without this function is chosen by the bridge, and refused in a template.
   */
  readonly parse?: (input: HeatInput) => D | undefined;
  /** Maximum size of the result, in bytes of JSON. */
  readonly maxBytes: number;
  /** Tries once. */
  readonly deliver: (delivery: ResultDelivery<D>) => Promise<DeliveryOutcome>;
}

/** An input that Heat adds to a deployment, by its name without `deploy_`. */
export type HeatInput = (name: string) => string | undefined;

/** A signal of a minion, and where it goes. */
export interface Delivery<D> {
  readonly destination: D;
  /** The same at each try. */
  readonly record: {
    readonly id: string;
    readonly alias: string;
    readonly minion: string;
    readonly member?: string;
    readonly signal: Signal;
  };
  /** The id under which Heat counts. */
  readonly signalId: string;
  /** Failed tries since the process started. */
  readonly failures: number;
  /** End of the handle, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly now: () => number;
  readonly ask: Ask;
  /** Keystone tokens of handles, by alias and user. */
  readonly tokens: Map<string, string>;
}

/** The result of a deployment, and where it goes. */
export interface ResultDelivery<D> {
  readonly destination: D;
  /** Id of the deployment. */
  readonly id: string;
  readonly serverId: string;
  /** The resource to signal, if a stack has made the deployment. */
  readonly resource?: { readonly stackPath: string; readonly name: string };
  /** The result as JSON. */
  readonly body: string;
  readonly ask: Ask;
  /** Sends a request as the owner of the stack; `undefined` if the stack has no login. */
  readonly askAsOwner: AskAsOwner | undefined;
  /** Takes a signal as if the minion had emitted it; durable when it resolves. */
  readonly signalHandle: (alias: string, signal: ResultSignal) => Promise<DeliveryOutcome>;
}

/** Addresses of services in the catalog of a log-in; `undefined` if the catalog lacks one. */
interface ServiceUrls {
  /** Of heat-api, with the project. */
  readonly heat: string | undefined;
  readonly zaqar: string | undefined;
}

/** @param request - made from the addresses of the catalog; `undefined`: the service is missing */
type AskAsOwner = (
  request: (urls: ServiceUrls) => OutgoingRequest | undefined,
) => Promise<HttpResult>;

/** A result as minions signal handles. */
interface ResultSignal {
  readonly status: 'FAILURE' | 'SUCCESS';
  readonly reason: string;
  readonly data: string;
}
