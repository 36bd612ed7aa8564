/**
 * Where the signals of a handle go, read from what Heat gives: the attributes of an
 * `OS::Heat::WaitConditionHandle`, the reference of an `AWS::CloudFormation::WaitConditionHandle`;
 * or a webhook in the form of Standard Webhooks.
 */

import type { Static } from 'typebox';
import Type from 'typebox';
import { compileSchema } from '#runtime';
import { BridgeError } from '../errors.ts';

/** A pre-signed address, to be used byte for byte. */
interface PreSigned<T extends 'AWS_SIGNAL' | 'CFN_SIGNAL' | 'TEMP_URL_SIGNAL'> {
  readonly transport: T;
  readonly url: string;
}

/** A token that Heat has obtained. */
interface WithToken {
  readonly transport: 'TOKEN_SIGNAL';
  readonly url: string;
  readonly token: string;
}

/** Who logs in with Keystone, and where. */
export interface Credentials {
  readonly authUrl: string;
  readonly userId: string;
  readonly password: string;
  readonly projectId: string;
}

/** A log-in of the handle's own user. */
interface WithLogin extends Credentials {
  readonly transport: 'HEAT_SIGNAL';
  readonly url: string;
}

/** A queue that Heat reads; its service is found in the catalog of the log-in. */
interface Queue extends Credentials {
  readonly transport: 'ZAQAR_SIGNAL';
  readonly queueId: string;
  readonly regionName?: string;
}

/** A receiver of signed messages [Standard Webhooks]. */
interface Webhook {
  readonly transport: 'WEBHOOK';
  readonly url: string;
  /** One, or two while they change; base64 behind `whsec_`. */
  readonly keys: readonly string[];
}

/** Where the signals of a handle go. All of it is secret but `transport`. */
export type Destination =
  | PreSigned<'AWS_SIGNAL'>
  | PreSigned<'CFN_SIGNAL'>
  | PreSigned<'TEMP_URL_SIGNAL'>
  | Queue
  | Webhook
  | WithLogin
  | WithToken;

/** How signals reach the handle, mostly by Heat's own names. */
export type Transport = Destination['transport'];

const Text = Type.String({ minLength: 1, maxLength: 4096 });
const loginFields = { auth_url: Text, user_id: Text, password: Text, project_id: Text };

const isPreSigned = compileSchema(
  Type.Object({ alarm_url: Text }, { additionalProperties: false }),
);
const isWithToken = compileSchema(Type.Object({ endpoint: Text, token: Text }));
const isWithLogin = compileSchema(Type.Object({ ...loginFields, alarm_url: Text }));
const isQueue = compileSchema(
  Type.Object({ ...loginFields, queue_id: Text, region_name: Type.Optional(Text) }),
);
const WebhookForm = Type.Object(
  { url: Text, key: Type.Optional(Text), keys: Type.Optional(Type.Array(Text)) },
  { additionalProperties: false },
);
const isWebhook = compileSchema(WebhookForm);
const isOutput = compileSchema(Type.Object({ output_value: Type.Unknown() }));

/**
 * Reads one of the forms; text may be JSON in JSON, as outputs of stacks are.
 * @throws BridgeError ERR_HANDLE_FORM; nothing of what was read is in its text
 */
export function parseDestination(given: unknown): Destination {
  const form = unwrapJson(given, 4);
  if (typeof form === 'string') return parseText(form.trim());
  if (isWithLogin.Check(form)) {
    return { transport: 'HEAT_SIGNAL', ...credentialsOf(form), url: checkedUrl(form.alarm_url) };
  }
  if (isQueue.Check(form)) {
    const region = form.region_name === undefined ? {} : { regionName: form.region_name };
    return {
      transport: 'ZAQAR_SIGNAL',
      ...credentialsOf(form),
      queueId: form.queue_id,
      ...region,
    };
  }
  if (isPreSigned.Check(form)) return preSigned(form.alarm_url);
  if (isWithToken.Check(form)) {
    return {
      transport: 'TOKEN_SIGNAL',
      url: checkedUrl(form.endpoint),
      token: checkedToken(form.token),
    };
  }
  if (isWebhook.Check(form)) return webhook(form);
  throw destinationError('none of the forms in which Heat gives a handle, and no webhook');
}

/** Every secret of a destination, so that an answer which repeats one can be cleaned of it. */
export function secretsOf(destination: Destination): readonly string[] {
  const { transport } = destination;
  if (transport === 'WEBHOOK') return [destination.url, ...destination.keys];
  if (transport === 'ZAQAR_SIGNAL') return [destination.password];
  if (transport === 'HEAT_SIGNAL') return [destination.password];
  if (transport === 'TOKEN_SIGNAL') return [destination.token];
  const query = destination.url.slice(destination.url.indexOf('?') + 1);
  const signatures = query.split('&').flatMap((pair) => pair.split('=').slice(1));
  return [destination.url, query, ...signatures.filter((it) => it.length >= 16)];
}

/** Text that holds JSON, and a stack's output around it, as `openstack stack output show` gives it. */
function unwrapJson(given: unknown, depth: number): unknown {
  if (depth === 0) return given;
  if (isOutput.Check(given)) return unwrapJson(given.output_value, depth - 1);
  if (typeof given !== 'string' || !/^\s*["{]/.test(given)) return given;
  try {
    return unwrapJson(JSON.parse(given), depth - 1);
  } catch {
    // Without the cause: its text repeats what it could not read.
    throw destinationError('text that begins like JSON and is none');
  }
}

/** A bare address is the reference of an AWS handle; the other text is the attribute `curl_cli`. */
function parseText(text: string): Destination {
  if (text === '') throw destinationError('it is empty');
  if (!text.startsWith('curl ')) {
    const url = checkedUrl(text);
    if (url.includes('/waitcondition/')) return { transport: 'AWS_SIGNAL', url };
    throw destinationError('an address that is not that of a wait condition');
  }
  const token = /'X-Auth-Token: ([^']+)'/.exec(text)?.[1];
  const url = / (https?:\/\/\S+)$/.exec(text)?.[1];
  if (token === undefined || url === undefined)
    throw destinationError('curl without token or address');
  return { transport: 'TOKEN_SIGNAL', url: checkedUrl(url), token: checkedToken(token) };
}

function preSigned(given: string): Destination {
  const url = checkedUrl(given);
  if (url.includes('temp_url_sig=')) return { transport: 'TEMP_URL_SIGNAL', url };
  if (url.includes('/waitcondition/')) return { transport: 'CFN_SIGNAL', url };
  throw destinationError('an alarm_url that is neither of a wait condition nor of Swift');
}

function credentialsOf(form: Static<Type.TObject<typeof loginFields>>): Credentials {
  return {
    authUrl: checkedUrl(form.auth_url).replace(/\/+$/, ''),
    userId: form.user_id,
    password: form.password,
    projectId: form.project_id,
  };
}

function webhook({ url, key, keys = [] }: Static<typeof WebhookForm>): Webhook {
  const all = key === undefined ? keys : [key, ...keys];
  if (all.length < 1 || all.length > 2)
    throw destinationError('a webhook with other than 1 or 2 keys');
  // 24 to 64 bytes, as Standard Webhooks asks for.
  const isKey = (it: string): boolean => /^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/.test(it);
  if (!all.every(isKey))
    throw destinationError('a key that is not whsec_ and 24 to 64 bytes in base64');
  return { transport: 'WEBHOOK', url: checkedUrl(url), keys: all };
}

/**
 * An address is used as it is written, since signatures cover it; so nothing may be in it that a
 * reader of HTTP or of addresses could take for something else.
 */
function checkedUrl(text: string): string {
  const isPlain = /^https?:\/\/[\x21-\x7e]+$/.test(text) && !/[\\#"<>^`{|}]/.test(text);
  if (!isPlain || !URL.canParse(text)) throw destinationError('no plain http or https address');
  const { username, password } = new URL(text);
  if (username !== '' || password !== '' || text.split('/')[2]?.includes('@')) {
    throw destinationError('an address with a user in it');
  }
  return text;
}

function checkedToken(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text)) throw destinationError('a token that cannot stand in a header');
  return text;
}

function destinationError(what: string): BridgeError {
  return new BridgeError('ERR_HANDLE_FORM', `where the handle's signals go: ${what}`);
}
