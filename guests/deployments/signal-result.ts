/**
 * Sends the result of a deployment to Heat. Logs in with the stack's credentials if the transport
 * requires a login.
 */

import { type Ask, type DeliveryOutcome, deliverResult, type ResultDelivery } from '#heat-bridge';
import type { StackLogins } from './logins.ts';
import type { Deployment } from './metadata.ts';
import type { OwnerLogin } from './stacks.ts';

/** Result of a deployment of a stack. */
export interface StackResult extends Pick<Deployment, 'id' | 'resource' | 'signal'> {
  /** Id that the bridge gave the stack when it was registered. */
  readonly stack: string;
  /** Keystone login that was registered with the stack, if any. */
  readonly login: OwnerLogin | undefined;
  readonly serverId: string;
  readonly minion: string;
  /** Result of the deployment, as JSON text. */
  readonly body: string;
}

export interface ResultDeliveryDeps {
  readonly ask: Ask;
  readonly logins: StackLogins;
  /** Accepts a signal as if the minion had sent it. Resolves when the signal is durable. */
  readonly signalHandle: (
    minion: string,
    alias: string,
    signal: Parameters<ResultDelivery<unknown>['signalHandle']>[1],
  ) => Promise<DeliveryOutcome>;
}

/** Makes one attempt to send the result of a deployment to its destination. */
export function deliverStackResult(
  { stack, login, minion, signal, ...result }: StackResult,
  { ask, logins, signalHandle }: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  const askAsOwner: ResultDelivery<unknown>['askAsOwner'] =
    login && ((request) => logins.ask(ask, stack, login, request));
  return deliverResult({
    ...result,
    destination: signal,
    ask,
    askAsOwner,
    signalHandle: (alias, given) => signalHandle(minion, alias, given),
  });
}
