/** Delivers signals to heat-api with `POST`, and sets the status of deployments in Heat. */

import { hash } from 'node:crypto';
import Type from 'typebox';
import { parseExactJson } from '#master';
import { compileSchema, type HttpResult, writeJson } from '#runtime';
import { type Credentials, logInToKeystone } from '../openstack/log-in.ts';
import { type DeliveryOutcome, deliveryOutcomeOf } from '../openstack/service-answer.ts';
import { publicServiceUrl } from '../openstack/service-catalog.ts';
import { encodePath, getRequest, heatBody, jsonOf } from './heat-requests.ts';
import type { Delivery, ResultDelivery } from './transport.ts';

/**
 * Sends a signal with the token that Heat put into the handle. The handle becomes unusable when
 * this token expires.
 */
export async function signalWithToken(
  delivery: Delivery<{ readonly url: string; readonly token: string }>,
): Promise<DeliveryOutcome> {
  const { url, token } = delivery.destination;
  return deliveryOutcomeOf(await postSignal(delivery, url, token), [200]);
}

/**
 * Sends a signal as the user in the handle. Tokens are cached in memory. If heat-api rejects a
 * cached token, logs in once more, and this second request determines the outcome.
 */
export async function signalWithLogin(
  delivery: Delivery<Credentials & { readonly url: string }>,
): Promise<DeliveryOutcome> {
  const { destination, tokens } = delivery;
  const key = credentialKey(destination);
  const known = tokens.get(key);
  if (known !== undefined) {
    const exchange = await postSignal(delivery, destination.url, known);
    if (exchange.kind !== 'answer' || exchange.status !== 401)
      return deliveryOutcomeOf(exchange, [200]);
    tokens.delete(key);
  }
  const login = await logInToKeystone(delivery.ask, destination);
  if (!login.isIn) return login.outcome;
  const exchange = await postSignal(delivery, destination.url, login.token);
  const outcome = deliveryOutcomeOf(exchange, [200]);
  if (outcome.kind === 'delivered') tokens.set(key, login.token);
  return outcome;
}

/**
 * Returns the cache key for a token, computed from all fields of the credentials. A handle with a
 * wrong password can therefore not use the cached token of another handle.
 */
function credentialKey({ authUrl, userId, password, projectId }: Credentials): string {
  return hash('sha256', JSON.stringify([authUrl, userId, password, projectId]));
}

function postSignal(delivery: Delivery<unknown>, url: string, token: string): Promise<HttpResult> {
  return delivery.ask({
    method: 'POST',
    url,
    headers: { 'x-auth-token': token },
    body: heatBody(delivery),
  });
}

/**
 * Signals the resource of a deployment, with the login that Heat added to the deployment. If this
 * fails, uses the login of the stack's owner.
 */
export async function signalResource(
  delivery: ResultDelivery<Credentials & { readonly regionName?: string }>,
): Promise<DeliveryOutcome> {
  return orAsOwner(await signalResourceAsUser(delivery), delivery);
}

async function signalResourceAsUser({
  destination,
  body,
  resource,
  ask,
}: ResultDelivery<Credentials & { readonly regionName?: string }>): Promise<DeliveryOutcome> {
  if (resource === undefined)
    return {
      kind: 'final',
      reason: 'the metadata of the deployment does not name the resource to signal',
    };
  const login = await logInToKeystone(ask, destination);
  if (!login.isIn) return login.outcome;
  const heat = await publicServiceUrl(login.body, 'orchestration', destination.regionName);
  if (heat === undefined)
    return {
      kind: 'final',
      reason: "Keystone's service catalog contains no public Heat endpoint in the region",
    };
  const headers = { 'x-auth-token': login.token };
  return deliveryOutcomeOf(
    await ask({ method: 'POST', url: signalUrl(heat, resource), headers, body }),
    [200],
  );
}

type Resource = NonNullable<ResultDelivery<unknown>['resource']>;

function signalUrl(heat: string, { stackPath, name }: Resource): string {
  return `${heat}/stacks/${encodePath(stackPath)}/resources/${encodeURIComponent(name)}/signal`;
}

/**
 * If an attempt to signal a resource failed permanently, signals the resource again with the login
 * of the stack's owner. Returns the outcome of the new attempt. A new attempt helps if the first
 * one used a pre-signed URL, because such a URL is valid for only 15 minutes.
 * @param outcome - outcome of the first attempt. It is returned unchanged if it is not final, or if
 * the owner's login or the resource is unknown
 */
export async function orAsOwner(
  outcome: DeliveryOutcome,
  { askAsOwner, resource, body }: ResultDelivery<unknown>,
): Promise<DeliveryOutcome> {
  if (outcome.kind !== 'final' || askAsOwner === undefined || resource === undefined)
    return outcome;
  const result = await askAsOwner(({ heat }) =>
    heat === undefined ? undefined : { method: 'POST', url: signalUrl(heat, resource), body },
  );
  return deliveryOutcomeOf(result, [200]);
}

const maxListBytes = 1_048_576;
const isDeployments = compileSchema(
  Type.Object({
    software_deployments: Type.Array(Type.Object({ id: Type.String(), config_id: Type.String() })),
  }),
);

/**
 * Sets the status of a deployment that no stack created. Finds the deployment by its config, with
 * the login of the owner.
 */
export async function setDeploymentStatus({
  id,
  serverId,
  body,
  askAsOwner,
}: ResultDelivery<unknown>): Promise<DeliveryOutcome> {
  if (askAsOwner === undefined) {
    return {
      kind: 'final',
      reason:
        'no destination: the deployment has no signal transport, and the stack is registered without a login',
    };
  }
  const query = `server_id=${encodeURIComponent(serverId)}`;
  const result = await askAsOwner(({ heat }) =>
    getRequest(heat && `${heat}/software_deployments?${query}`, { maxBytes: maxListBytes }),
  );
  const read = jsonOf(result, { maxBytes: maxListBytes });
  if (!read.ok) return deliveryOutcomeOf(result, []);
  const all = isDeployments.Check(read.body) ? read.body.software_deployments : [];
  const found = all.find((it) => it.config_id === id);
  if (found === undefined)
    return { kind: 'final', reason: 'the deployment no longer exists in Heat' };
  const put = await askAsOwner(({ heat }) =>
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
  const { saltbridge_deployment: _id, ...values } = Object(parseExactJson(body));
  const isFailed = values.deploy_status_code !== 0;
  const status = isFailed ? 'FAILED' : 'COMPLETE';
  const reason = isFailed
    ? `deploy_status_code : ${values.deploy_status_code}`
    : 'Outputs received';
  return writeJson({ status, status_reason: reason, output_values: values });
}
