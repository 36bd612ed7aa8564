/** Tries once to bring the result of a deployment to Heat, over the transport that Heat has chosen. */

import { hash } from 'node:crypto';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import {
  type DeliveryOutcome,
  deliveryOutcomeOf,
  isPlainMap,
  logInToKeystone,
  publicServiceUrl,
  zaqarClientId,
} from '#heat-bridge';
import type { Ask, StackLogins } from './logins.ts';
import type { Deployment } from './metadata.ts';
import { encodePath, getRequest, jsonOf, messagesOf } from './sources.ts';
import type { OwnerLogin } from './stacks.ts';

/** A result on its way. */
export interface ResultDelivery extends Pick<Deployment, 'id' | 'signal' | 'resource'> {
  /** Id of the stack's registration, and its login where it has one. */
  readonly stack: string;
  readonly login: OwnerLogin | undefined;
  readonly serverId: string;
  readonly minion: string;
  /** JSON. */
  readonly body: string;
}

export interface ResultDeliveryDeps {
  readonly ask: Ask;
  readonly logins: StackLogins;
  /** Takes a signal as if the minion had emitted it; durable when it resolves. */
  readonly signalHandle: (
    minion: string,
    alias: string,
    signal: HandleSignal,
  ) => Promise<DeliveryOutcome>;
}

/** As minions signal handles. */
interface HandleSignal {
  readonly status: 'FAILURE' | 'SUCCESS';
  readonly reason: string;
  readonly data: string;
}

/** Delivered, to be tried again, or given up. */
export async function deliverResult(
  delivery: ResultDelivery,
  deps: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  const { signal } = delivery;
  switch (signal.transport) {
    case 'NO_SIGNAL':
      return { kind: 'delivered' };
    case 'CFN_SIGNAL': {
      const result = await deps.ask({ method: 'POST', url: signal.url, body: delivery.body });
      return orAsOwner(deliveryOutcomeOf(result, [200]), delivery, deps);
    }
    case 'TEMP_URL_SIGNAL':
      return putObject(signal.url, delivery, deps);
    case 'HEAT_SIGNAL':
      return orAsOwner(await signalResource(signal, delivery, deps), delivery, deps);
    case 'ZAQAR_SIGNAL':
      return postMessage(signal, delivery, deps);
    case 'HANDLE':
      return deps.signalHandle(delivery.minion, signal.alias, handleSignalOf(delivery.body));
    case 'STATUS':
      return setStatus(delivery, deps);
  }
}

/** As `cfn-signal` says it. */
function handleSignalOf(body: string): HandleSignal {
  const { deploy_status_code: code, deploy_stdout: data, deploy_stderr: reason } = JSON.parse(body);
  if (code === 0) return { status: 'SUCCESS', reason: 'Configuration Complete', data };
  return { status: 'FAILURE', reason, data };
}

type SignalOf<T> = Extract<Deployment['signal'], { transport: T }>;

async function signalResource(
  signal: SignalOf<'HEAT_SIGNAL'>,
  { body, resource }: ResultDelivery,
  { ask }: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  if (resource === undefined) return { kind: 'final', reason: 'Heat names no resource to signal' };
  const login = await logInToKeystone(ask, signal);
  if (!login.isIn) return login.outcome;
  const heat = publicServiceUrl(login.body, 'orchestration', signal.regionName);
  if (heat === undefined) return { kind: 'final', reason: 'the catalog of the log-in lacks Heat' };
  const headers = { 'x-auth-token': login.token };
  return deliveryOutcomeOf(
    await ask({ method: 'POST', url: signalUrl(heat, resource), headers, body }),
    [200],
  );
}

function signalUrl(heat: string, { stackPath, name }: NonNullable<Deployment['resource']>): string {
  return `${heat}/stacks/${encodePath(stackPath)}/resources/${encodeURIComponent(name)}/signal`;
}

/** A pre-signed address is good for a quarter of an hour; the stack's owner may signal as well. */
async function orAsOwner(
  outcome: DeliveryOutcome,
  { stack, login, resource, body }: ResultDelivery,
  { ask, logins }: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  if (outcome.kind !== 'final' || login === undefined || resource === undefined) return outcome;
  const result = await logins.ask(ask, stack, login, ({ heat }) =>
    heat === undefined ? undefined : { method: 'POST', url: signalUrl(heat, resource), body },
  );
  return deliveryOutcomeOf(result, [200]);
}

/** Where our own object lies already, only its answer was lost. */
async function putObject(
  url: string,
  { body }: ResultDelivery,
  { ask }: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  const look = await ask({ method: 'HEAD', url });
  const etag = look.kind === 'answer' ? look.headers.etag?.replaceAll('"', '') : undefined;
  if (etag === hash('md5', body)) return { kind: 'delivered' };
  if (look.kind !== 'answer' || look.status >= 500) return deliveryOutcomeOf(look, []);
  return deliveryOutcomeOf(await ask({ method: 'PUT', url, body }), [201]);
}

/** So short that a message which nobody takes does not complete a later update. */
const messageTtlSeconds = 60;
const maxListBytes = 1_048_576;

/**
 * Heat takes the first message of the queue, whatever entry it was for: those of other entries are
 * deleted, and ours is not posted again where it lies there.
 */
async function postMessage(
  signal: SignalOf<'ZAQAR_SIGNAL'>,
  { id, body }: ResultDelivery,
  { ask }: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  const login = await logInToKeystone(ask, signal);
  if (!login.isIn) return login.outcome;
  const zaqar = publicServiceUrl(login.body, 'messaging', signal.regionName);
  if (zaqar === undefined) {
    return { kind: 'final', reason: 'the catalog of the log-in lacks Zaqar' };
  }
  const url = `${zaqar}/v2/queues/${encodeURIComponent(signal.queueId)}/messages`;
  const headers = { 'x-auth-token': login.token, 'client-id': zaqarClientId };
  const look = await ask({
    method: 'GET',
    url: `${url}?echo=true`,
    headers,
    maxAnswerBytes: maxListBytes,
  });
  const read = jsonOf(look, { maxBytes: maxListBytes });
  const messages = messagesOf(read.ok ? read.body : undefined);
  if (messages.some((it) => isPlainMap(it.body) && it.body.saltbridge_deployment === id)) {
    return { kind: 'delivered' };
  }
  if (messages.length > 0) {
    const ids = messages.map((it) => encodeURIComponent(it.id)).join(',');
    await ask({ method: 'DELETE', url: `${url}?ids=${ids}`, headers });
  }
  const message = `{"messages":[{"body":${body},"ttl":${messageTtlSeconds}}]}`;
  return deliveryOutcomeOf(await ask({ method: 'POST', url, headers, body: message }), [201]);
}

const isDeployments = Compile(
  Type.Object({
    software_deployments: Type.Array(Type.Object({ id: Type.String(), config_id: Type.String() })),
  }),
);

/** A deployment without a stack has no user: its owner finds it by its config and sets the status. */
async function setStatus(
  { id, stack, login, serverId, body }: ResultDelivery,
  { ask, logins }: ResultDeliveryDeps,
): Promise<DeliveryOutcome> {
  if (login === undefined) {
    return { kind: 'final', reason: 'the deployment has no signal, and the stack no login' };
  }
  const query = `server_id=${encodeURIComponent(serverId)}`;
  const result = await logins.ask(ask, stack, login, ({ heat }) =>
    getRequest(heat && `${heat}/software_deployments?${query}`, { maxBytes: maxListBytes }),
  );
  const read = jsonOf(result, { maxBytes: maxListBytes });
  if (!read.ok) return deliveryOutcomeOf(result, []);
  const all = isDeployments.Check(read.body) ? read.body.software_deployments : [];
  const found = all.find((it) => it.config_id === id);
  if (found === undefined) return { kind: 'final', reason: 'Heat has no such deployment any more' };
  const put = await logins.ask(ask, stack, login, ({ heat }) =>
    heat === undefined
      ? undefined
      : {
          method: 'PUT',
          url: `${heat}/software_deployments/${encodeURIComponent(found.id)}`,
          body: statusBody(body),
        },
  );
  return deliveryOutcomeOf(put, [200]);
}

function statusBody(body: string): string {
  const { saltbridge_deployment: _id, ...values } = JSON.parse(body);
  const isFailed = values.deploy_status_code !== 0;
  const status = isFailed ? 'FAILED' : 'COMPLETE';
  const reason = isFailed
    ? `deploy_status_code : ${values.deploy_status_code}`
    : 'Outputs received';
  return JSON.stringify({ status, status_reason: reason, output_values: values });
}
