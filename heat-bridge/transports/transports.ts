/**
 * Table of the transports that deliver signals and deployment results. Each row has functions that
 * parse a destination and deliver to it, and a list of the secret fields.
 */

import Type from 'typebox';
import { parseExactJson } from '#master';
import { compileSchema } from '#runtime';
import { bridgeLimits } from '../limits.ts';
import type { Credentials } from '../openstack/log-in.ts';
import { type DeliveryOutcome, deliveryOutcomeOf } from '../openstack/service-answer.ts';
import { checkedToken, checkedUrl, credentialsOf, destinationError } from './destination-text.ts';
import {
  orAsOwner,
  setDeploymentStatus,
  signalResource,
  signalWithLogin,
  signalWithToken,
} from './heat-api-delivery.ts';
import { heatBody } from './heat-requests.ts';
import {
  awsBody,
  postAlarm,
  putResultObject,
  putSignalObject,
  putToCfn,
  putVersionedObject,
} from './pre-signed-delivery.ts';
import type {
  Delivery,
  HandleUse,
  HeatInput,
  ResultDelivery,
  ResultUse,
  Secrecy,
  SecrecyOf,
} from './transport.ts';
import { postWebhook, type WebhookReceiver } from './webhook-delivery.ts';
import { postResultMessage, postSignalMessage, type ZaqarQueue } from './zaqar-delivery.ts';

/** Pre-signed URL. It must not be normalized, because the signature covers its exact text. */
export interface PreSigned<T extends string> {
  readonly transport: T;
  readonly url: string;
}

/** Destinations of handles, by transport. */
export interface HandleDestinations {
  readonly ALARM_URL: PreSigned<'ALARM_URL'>;
  readonly AWS_SIGNAL: PreSigned<'AWS_SIGNAL'>;
  readonly CFN_SIGNAL: PreSigned<'CFN_SIGNAL'>;
  readonly HEAT_SIGNAL: Credentials & { readonly transport: 'HEAT_SIGNAL'; readonly url: string };
  readonly SWIFT_SIGNAL: PreSigned<'SWIFT_SIGNAL'>;
  readonly TEMP_URL_SIGNAL: PreSigned<'TEMP_URL_SIGNAL'>;
  readonly TOKEN_SIGNAL: {
    readonly transport: 'TOKEN_SIGNAL';
    readonly url: string;
    readonly token: string;
  };
  readonly WEBHOOK: WebhookReceiver & { readonly transport: 'WEBHOOK' };
  readonly ZAQAR_SIGNAL: ZaqarQueue & { readonly transport: 'ZAQAR_SIGNAL' };
}

/** Destinations of the results of deployments, by transport. */
interface ResultDestinations {
  readonly CFN_SIGNAL: PreSigned<'CFN_SIGNAL'>;
  readonly HANDLE: { readonly transport: 'HANDLE'; readonly alias: string };
  readonly HEAT_SIGNAL: Credentials & {
    readonly transport: 'HEAT_SIGNAL';
    readonly regionName?: string;
  };
  readonly NO_SIGNAL: { readonly transport: 'NO_SIGNAL' };
  readonly STATUS: { readonly transport: 'STATUS' };
  readonly TEMP_URL_SIGNAL: PreSigned<'TEMP_URL_SIGNAL'>;
  readonly ZAQAR_SIGNAL: ZaqarQueue & { readonly transport: 'ZAQAR_SIGNAL' };
}

/** Name of a transport for signals. Most of the names are Heat's own. */
export type Transport = keyof HandleDestinations;

/** Name of a transport for the results of deployments. */
export type ResultTransport = keyof ResultDestinations;

/** Destination of the signals of a handle. */
export type Destination = HandleDestinations[Transport];

/** Destination of the result of a deployment. */
export type ResultDestination = ResultDestinations[ResultTransport];

type MemberOf<Map, Key> = Key extends keyof Map ? Map[Key] : never;

interface HandleRow<T extends Transport> {
  readonly handle: HandleUse<HandleDestinations[T]>;
}

interface ResultRow<T extends ResultTransport> {
  readonly result: ResultUse<ResultDestinations[T]>;
}

type Row<T extends Transport | ResultTransport> = {
  /** One-line description for the API reference. */
  readonly summary: string;
  readonly secrets: SecrecyOf<MemberOf<HandleDestinations, T> | MemberOf<ResultDestinations, T>>;
} & (T extends Transport ? HandleRow<T> : { readonly handle?: never }) &
  (T extends ResultTransport ? ResultRow<T> : { readonly result?: never });

type Rows = { readonly [T in Transport | ResultTransport]: Row<T> };

const { total: maxTextLength = Infinity } = bridgeLimits.destinationLength;
const resultBytes = 900_000;
const secretsOfLogin = {
  authUrl: 'open',
  userId: 'open',
  password: 'secret',
  projectId: 'open',
  regionName: 'open',
} as const;

const Text = Type.String({ minLength: 1, maxLength: 4096 });
const loginFields = { auth_url: Text, user_id: Text, password: Text, project_id: Text };
const isAlarmUrl = compileSchema(Type.Object({ alarm_url: Text }, { additionalProperties: false }));
const isWithToken = compileSchema(Type.Object({ endpoint: Text, token: Text }));
/** Checks the form of a Swift handle. The `token` of such a handle is empty. */
const isSwiftHandle = compileSchema(
  Type.Object(
    { endpoint: Text, token: Type.Optional(Type.Literal('')) },
    { additionalProperties: false },
  ),
);
const isWithLogin = compileSchema(Type.Object({ ...loginFields, alarm_url: Text }));
const isQueue = compileSchema(
  Type.Object({
    ...loginFields,
    queue_id: Text,
    region_name: Type.Optional(Text),
  }),
);
const isWebhook = compileSchema(
  Type.Object(
    {
      url: Text,
      key: Type.Optional(Text),
      keys: Type.Optional(Type.Array(Text)),
    },
    { additionalProperties: false },
  ),
);

/** All transports. The first transport that recognises the form of a handle parses it. */
const rows: Rows = {
  HEAT_SIGNAL: {
    summary:
      'the attribute `signal` of a handle, or the login of a deployment: a signal to heat-api',
    secrets: { ...secretsOfLogin, url: 'open' },
    handle: {
      parse: (form) =>
        isWithLogin.Check(form)
          ? {
              transport: 'HEAT_SIGNAL',
              ...credentialsOf(form),
              url: checkedUrl(form.alarm_url),
            }
          : undefined,
      address: ({ url }) => url,
      storesAfterReply: true,
      deliver: signalWithLogin,
    },
    result: {
      parse: (input) => {
        const login = loginOf(input);
        return login && { transport: 'HEAT_SIGNAL', ...login };
      },
      maxBytes: resultBytes,
      deliver: signalResource,
    },
  },
  ZAQAR_SIGNAL: {
    summary: 'the attribute `signal` of a handle: a message in a queue of Zaqar',
    secrets: { ...secretsOfLogin, queueId: 'open' },
    handle: {
      parse: (form) => {
        if (!isQueue.Check(form)) return undefined;
        const region = form.region_name === undefined ? {} : { regionName: form.region_name };
        const { queue_id: queueId } = form;
        return { transport: 'ZAQAR_SIGNAL', ...credentialsOf(form), queueId, ...region };
      },
      address: ({ authUrl }) => authUrl,
      storesAfterReply: false,
      deliver: postSignalMessage,
    },
    result: {
      parse: (input) => {
        const login = loginOf(input);
        const queueId = input('queue_id');
        if (login === undefined || queueId === undefined) return undefined;
        return { transport: 'ZAQAR_SIGNAL', ...login, queueId };
      },
      // Zaqar accepts requests of up to 256 KiB.
      maxBytes: 240_000,
      deliver: postResultMessage,
    },
  },
  TEMP_URL_SIGNAL: {
    summary: 'the attribute `signal` of a handle: an object in Swift',
    secrets: { url: 'signed-address' },
    handle: {
      parse: (form) => {
        const url = alarmUrlOf(form);
        if (url?.includes('temp_url_sig=') !== true) return undefined;
        return { transport: 'TEMP_URL_SIGNAL', url };
      },
      address: ({ url }) => url,
      storesAfterReply: false,
      deliver: putSignalObject,
    },
    result: {
      parse: (input) => {
        const url = signalUrlOf(input);
        return url === undefined ? undefined : { transport: 'TEMP_URL_SIGNAL', url };
      },
      maxBytes: resultBytes,
      deliver: putResultObject,
    },
  },
  SWIFT_SIGNAL: {
    summary:
      'the attribute `endpoint` or `curl_cli`, or the reference, of an `OS::Heat::SwiftSignalHandle`: an object in Swift',
    secrets: { url: 'signed-address' },
    handle: {
      parse: (form) => {
        const url = swiftUrlOf(form);
        return url === undefined ? undefined : { transport: 'SWIFT_SIGNAL', url };
      },
      address: ({ url }) => url,
      storesAfterReply: false,
      deliver: putVersionedObject,
    },
  },
  ALARM_URL: {
    summary: 'the attribute `alarm_url` of an `OS::Heat::ScalingPolicy`: each SUCCESS scales',
    secrets: { url: 'signed-address' },
    handle: {
      parse: (form) => {
        const url = typeof form === 'string' ? form : alarmUrlOf(form);
        if (url === undefined || !isAlarmOfPolicy(url)) return undefined;
        return { transport: 'ALARM_URL', url: checkedUrl(url) };
      },
      address: ({ url }) => url,
      storesAfterReply: false,
      deliver: postAlarm,
    },
  },
  CFN_SIGNAL: {
    summary: 'the attribute `signal` of a handle: a pre-signed URL of heat-api-cfn',
    secrets: { url: 'signed-address' },
    handle: {
      parse: (form) => {
        const url = alarmUrlOf(form);
        if (url?.includes('/waitcondition/') !== true) return undefined;
        return { transport: 'CFN_SIGNAL', url };
      },
      address: ({ url }) => url,
      storesAfterReply: false,
      deliver: (delivery) => putToCfn(delivery, heatBody(delivery)),
    },
    result: {
      parse: (input) => {
        const url = signalUrlOf(input);
        return url === undefined ? undefined : { transport: 'CFN_SIGNAL', url };
      },
      maxBytes: resultBytes,
      deliver: async (delivery) => {
        const { ask, body, destination } = delivery;
        const result = await ask({ method: 'POST', url: destination.url, body });
        return orAsOwner(deliveryOutcomeOf(result, [200]), delivery);
      },
    },
  },
  TOKEN_SIGNAL: {
    summary:
      'an object with `endpoint` and `token`, or the text of `curl_cli`: a signal to heat-api',
    secrets: { url: 'open', token: 'secret' },
    handle: {
      parse: (form) => {
        if (typeof form === 'string') return tokenInCurl(form);
        if (!isWithToken.Check(form)) return undefined;
        const url = checkedUrl(form.endpoint);
        return { transport: 'TOKEN_SIGNAL', url, token: checkedToken(form.token) };
      },
      address: ({ url }) => url,
      storesAfterReply: true,
      deliver: signalWithToken,
    },
  },
  AWS_SIGNAL: {
    summary: 'the URL that is the reference of an `AWS::CloudFormation::WaitConditionHandle`',
    secrets: { url: 'signed-address' },
    handle: {
      parse: (form) => {
        if (typeof form !== 'string') return undefined;
        const url = checkedUrl(form);
        return url.includes('/waitcondition/') ? { transport: 'AWS_SIGNAL', url } : undefined;
      },
      address: ({ url }) => url,
      storesAfterReply: false,
      deliver: (delivery) => putToCfn(delivery, awsBody(delivery)),
    },
  },
  WEBHOOK: {
    summary: '`{ url, key }` of a webhook: a signed message [Standard Webhooks]',
    secrets: { url: 'secret', keys: 'secret' },
    handle: {
      parse: (form) => {
        if (!isWebhook.Check(form)) return undefined;
        const { url, key, keys = [] } = form;
        const all = key === undefined ? keys : [key, ...keys];
        return { transport: 'WEBHOOK', url: checkedUrl(url), keys: checkedKeys(all) };
      },
      address: ({ url }) => url,
      storesAfterReply: false,
      deliver: postWebhook,
    },
  },
  NO_SIGNAL: {
    summary: 'a deployment whose result Heat does not need',
    secrets: {},
    result: {
      parse: () => ({ transport: 'NO_SIGNAL' }),
      maxBytes: resultBytes,
      deliver: async () => ({ kind: 'delivered' }),
    },
  },
  HANDLE: {
    summary: 'a handle registered for the minion, as if the minion had signalled it',
    secrets: { alias: 'open' },
    result: {
      maxBytes: 100_000,
      deliver: ({ destination, body, signalHandle }) =>
        signalHandle(destination.alias, handleSignalOf(body)),
    },
  },
  STATUS: {
    summary: "a deployment without a stack: the owner's login sets its status in Heat's API",
    secrets: {},
    result: { maxBytes: resultBytes, deliver: setDeploymentStatus },
  },
};

const handleRows: { readonly [T in Transport]: HandleRow<T> } = rows;
const resultRows: { readonly [T in ResultTransport]: ResultRow<T> } = rows;

function isTransport(name: string): name is Transport {
  return Object.hasOwn(rows, name) && 'handle' in rows[name as Transport];
}

function isResultTransport(name: string): name is ResultTransport {
  return Object.hasOwn(rows, name) && 'result' in rows[name as ResultTransport];
}

/** Descriptions of the forms that the destination of a handle may have, for the API reference. */
export const handleForms: string = Object.entries(rows)
  .filter(([name]) => isTransport(name))
  .map(([name, { summary }]) => `${name}: ${summary}`)
  .join('; ');

/**
 * Parses the destination of a handle's signals. Text may contain nested JSON, because outputs of
 * stacks have this form.
 * @throws BridgeError ERR_HANDLE_FORM; its message contains no part of the given value
 */
export function parseDestination(given: unknown): Destination {
  const unwrapped = unwrapJson(given, 4);
  const form = typeof unwrapped === 'string' ? unwrapped.trim() : unwrapped;
  if (form === '') throw destinationError('the handle must not be empty');
  if (typeof form === 'string' && form.length > maxTextLength) {
    throw destinationError(
      `the handle has ${form.length} characters, more than ${maxTextLength}; shorten the URL or the curl command`,
    );
  }
  if (typeof form === 'string' && isSignalUrl(form)) {
    throw destinationError(
      'a `signal_url` requires a login; use the `alarm_url` of the scaling policy instead, or register a JSON object that contains this URL as `alarm_url`, and the login as `auth_url`, `user_id`, `password` and `project_id`',
    );
  }
  for (const { handle } of Object.values(handleRows)) {
    const destination = handle?.parse(form);
    if (destination !== undefined) return destination;
  }
  throw destinationError(
    `the form of the handle is unknown; the supported forms are ${handleForms}`,
  );
}

/**
 * Parses the destination of a deployment's result from the inputs that Heat adds. If these inputs
 * name no transport, the deployment belongs to no stack, and the transport is `STATUS`.
 * @returns `undefined` if the transport is unknown or an input is missing
 */
export function parseResultDestination(input: HeatInput): ResultDestination | undefined {
  const name = input('signal_transport');
  if (name === undefined) return { transport: 'STATUS' };
  return isResultTransport(name) ? resultRows[name].result.parse?.(input) : undefined;
}

/** Returns the URL of the service to which a handle's signals are sent. */
export function addressOf(destination: Destination): string {
  return addressBy(destination.transport, destination);
}

function addressBy<T extends Transport>(transport: T, destination: HandleDestinations[T]): string {
  return handleRows[transport].handle.address(destination);
}

/**
 * Whether the service responds before it has stored a signal. The service can then store signals in
 * the wrong order.
 */
export function storesAfterReply({ transport }: Destination): boolean {
  return isTransport(transport) && handleRows[transport].handle.storesAfterReply;
}

/** Makes one attempt to deliver a signal to a handle. */
export async function deliverSignal(delivery: Delivery<Destination>): Promise<DeliveryOutcome> {
  const { transport } = delivery.destination;
  if (!isTransport(transport)) return unknownTransport;
  return deliverSignalBy(transport, delivery);
}

function deliverSignalBy<T extends Transport>(
  transport: T,
  delivery: Delivery<HandleDestinations[T]>,
): Promise<DeliveryOutcome> {
  return handleRows[transport].handle.deliver(delivery);
}

/** Makes one attempt to deliver the result of a deployment to Heat. */
export async function deliverResult(
  delivery: ResultDelivery<ResultDestination>,
): Promise<DeliveryOutcome> {
  const { transport } = delivery.destination;
  if (!isResultTransport(transport)) return unknownTransport;
  return deliverResultBy(transport, delivery);
}

function deliverResultBy<T extends ResultTransport>(
  transport: T,
  delivery: ResultDelivery<ResultDestinations[T]>,
): Promise<DeliveryOutcome> {
  return resultRows[transport].result.deliver(delivery);
}

/**
 * Outcome of a delivery if the stored destination has an unknown transport, which a later version
 * of saltbridge wrote.
 */
const unknownTransport = {
  kind: 'final',
  reason: 'this version of saltbridge does not support the transport of the stored destination',
} as const;

/** Returns the maximum size of a deployment's result, in bytes of JSON. */
export function maxResultBytes(transport: ResultTransport): number {
  return resultRows[transport].result.maxBytes;
}

/**
 * Returns all secrets in a destination. The bridge uses them to remove secrets from a service's
 * responses.
 */
export function secretsOf(destination: Destination | ResultDestination): readonly string[] {
  const row: { readonly secrets: Readonly<Record<string, Secrecy>> } | undefined = Object.hasOwn(
    rows,
    destination.transport,
  )
    ? rows[destination.transport]
    : undefined;
  return Object.entries(destination).flatMap(([field, value]: [string, unknown]) => {
    if (field === 'transport') return [];
    return secretsIn(row?.secrets[field] ?? 'secret', value);
  });
}

function secretsIn(secrecy: Secrecy, value: unknown): readonly string[] {
  const texts = [value].flat().filter((it) => typeof it === 'string');
  switch (secrecy) {
    case 'open':
      return [];
    case 'secret':
      return texts;
    case 'signed-address':
      return texts.flatMap((url) => {
        const query = url.slice(url.indexOf('?') + 1);
        const values = query.split('&').flatMap((pair) => pair.split('=').slice(1));
        return [url, query, ...values.filter((it) => it.length >= 16)];
      });
  }
}

const isOutput = compileSchema(Type.Object({ output_value: Type.Unknown() }));

/** Unwraps nested JSON text, and the JSON that `openstack stack output show` prints. */
function unwrapJson(given: unknown, depth: number): unknown {
  if (depth === 0) return given;
  if (isOutput.Check(given)) return unwrapJson(given.output_value, depth - 1);
  if (typeof given !== 'string' || !/^\s*["{]/.test(given)) return given;
  try {
    return unwrapJson(JSON.parse(given), depth - 1);
  } catch {
    // Omit the cause, because its message repeats the text.
    throw destinationError('the handle is not valid JSON');
  }
}

function alarmUrlOf(form: unknown): string | undefined {
  return isAlarmUrl.Check(form) ? checkedUrl(form.alarm_url) : undefined;
}

/**
 * Whether a text is the `signal_url` of a scaling policy: a URL of heat-api without credentials. A
 * tenant chooses the text, so the duration of this check must grow only linearly with the length of
 * the text.
 */
function isSignalUrl(text: string): boolean {
  if (!/^https?:\/\/[^?#\s]+$/.test(text)) return false;
  const parts = text.split('/');
  const [resources, name = '', action] = parts.slice(-3);
  const hasStack = parts.slice(3, -4).includes('stacks');
  return hasStack && resources === 'resources' && name !== '' && action === 'signal';
}

/** Whether a text is the `alarm_url` of a scaling policy: a pre-signed URL of heat-api-cfn. */
function isAlarmOfPolicy(text: string): boolean {
  const query = text.indexOf('?');
  return /^https?:/.test(text) && query !== -1 && text.slice(0, query).includes('/v1/signal/');
}

/**
 * Returns the pre-signed URL of the object that a `SwiftSignal` reads. Returns `undefined` if
 * `form` contains no such URL.
 * @param form - handle in Swift's form, a URL, or a `curl` command
 */
function swiftUrlOf(form: unknown): string | undefined {
  const given = isSwiftHandle.Check(form) ? form.endpoint : form;
  if (typeof given !== 'string') return undefined;
  const [, text = given] = /^curl .*-X PUT '([^'\s]+)'$/.exec(given) ?? [];
  if (!/^https?:[^\s]*[?&]temp_url_sig=/.test(text)) return undefined;
  return checkedUrl(text);
}

/** Parses the attribute `curl_cli` of a handle. */
function tokenInCurl(text: string): HandleDestinations['TOKEN_SIGNAL'] | undefined {
  if (!text.startsWith('curl ')) return undefined;
  const token = /'X-Auth-Token: ([^']+)'/.exec(text)?.[1];
  const url = / (https?:\/\/\S+)$/.exec(text)?.[1];
  if (token === undefined || url === undefined)
    throw destinationError(
      'the curl command of the handle must contain an X-Auth-Token header and end with a URL',
    );
  return { transport: 'TOKEN_SIGNAL', url: checkedUrl(url), token: checkedToken(token) };
}

/**
 * Validates the keys of a webhook: one or two keys of 24 to 64 bytes, as Standard Webhooks
 * requires.
 */
function checkedKeys(keys: readonly string[]): readonly string[] {
  if (keys.length < 1 || keys.length > 2)
    throw destinationError('a webhook must have one or two signing keys');
  const isKey = (it: string): boolean => /^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/.test(it);
  if (keys.every(isKey)) return keys;
  throw destinationError('a webhook key must be whsec_, followed by 24 to 64 bytes in base64');
}

/** Returns the signal URL that Heat adds to a deployment. */
function signalUrlOf(input: HeatInput): string | undefined {
  const url = input('signal_id');
  return url !== undefined && URL.canParse(url) ? url : undefined;
}

/** Returns the credentials that Heat adds to a deployment. */
function loginOf(input: HeatInput): (Credentials & { readonly regionName?: string }) | undefined {
  const authUrl = input('auth_url');
  const userId = input('user_id');
  const password = input('password');
  const projectId = input('project_id');
  const regionName = input('region_name');
  if (authUrl === undefined || !/^https?:/.test(authUrl) || !URL.canParse(authUrl))
    return undefined;
  if (userId === undefined || password === undefined || projectId === undefined) return undefined;
  const region = regionName === undefined ? {} : { regionName };
  return { authUrl, userId, password, projectId, ...region };
}

/** Converts the result of a deployment to a signal, as `cfn-signal` does. */
function handleSignalOf(body: string): Parameters<ResultDelivery<unknown>['signalHandle']>[1] {
  const {
    deploy_status_code: code,
    deploy_stdout: data,
    deploy_stderr: reason,
  } = Object(parseExactJson(body));
  if (code === 0) return { status: 'SUCCESS', reason: 'Configuration Complete', data };
  return { status: 'FAILURE', reason, data };
}
