/**
 * The entries of the matrix, generated from the tables of request types, HTTP routes, RPC methods,
 * functions and routes of agents. Each entry lists the fields that get hostile values.
 */

import { signAgentRequest } from '#guests/metadata-agent/agent-credentials.ts';
import type { RpcMethod } from '#master';
import { namedMethods, rpcMethods } from '#master/rpc/methods.ts';
import { packWire, type WireMap, type WireValue } from '#minion-protocol';
import { type Answer, type HttpRequest, send } from '../http-fuzz.ts';
import { cliEntries } from './cli-entries.ts';
import { connectionEntries } from './connection-entries.ts';
import type { Entry, Outcome } from './entry.ts';
import { clearLoads, envelopeFields, minionLoads } from './minion-loads.ts';
import { reachEntries } from './reach-entries.ts';
import { exampleOf, fieldsOf, withField } from './schemas.ts';
import { serverEntries } from './server-entries.ts';
import { addresses, agentSecret, type HostileSite } from './site.ts';
import { jsonOf, textOf } from './values.ts';

const megabyte = 1_048_576;
/** Time limit for one request, in milliseconds. */
const timeoutMs = 4_000;

/** Returns all entries. */
export async function allEntries(site: HostileSite): Promise<readonly Entry[]> {
  return [
    ...minionEntries(site),
    ...clearEntries(site),
    ...(await httpEntries(site)),
    ...connectionEntries(site),
    ...rpcEntries(site),
    ...(await functionEntries(site)),
    ...(await serverEntries(site)),
    ...(await reachEntries(site)),
    ...(await cliEntries(site)),
  ];
}

function minionEntries(site: HostileSite): readonly Entry[] {
  const { hostile, contributions } = site;
  return [...contributions.requests.keys()].map((cmd) => {
    const load = minionLoads[cmd];
    const fields = load === undefined ? [] : [...Object.keys(load), ...envelopeFields, 'unknown'];
    return {
      name: `request ${cmd}`,
      fields,
      maxBytes: 12 * megabyte,
      maxDepth: 200,
      prepare: (field, value) => {
        // Values of the families consist of types of the wire.
        const whole: WireMap = { cmd, ...load, [field]: (value ?? null) as WireValue };
        const { bytes } = hostile.session.seal(whole);
        return async () => {
          const reply = await hostile.transport.request(bytes, timeoutMs).catch(() => undefined);
          return { answer: reply === undefined ? 'no reply' : 'reply' };
        };
      },
    };
  });
}

/** Entries for unencrypted requests. The requests come from changing addresses of one network. */
function clearEntries({ dial, keys }: HostileSite): readonly Entry[] {
  let sent = 0;
  return Object.entries(clearLoads).map(([cmd, load]) => ({
    name: `clear request ${cmd}`,
    fields: [...Object.keys(load), 'cmd', 'version', 'unknown'],
    maxBytes: 900_000,
    maxDepth: 200,
    prepare: (field, value) => {
      sent += 1;
      const valid = cmd === '_auth' ? { ...load, id: `new${sent}`, pub: keys.publicPem } : load;
      // Values of the families consist of types of the wire.
      const given = (value ?? null) as WireValue;
      const whole = field === 'version' ? valid : { ...valid, cmd, [field]: given };
      const version = field === 'version' ? given : 3;
      const bytes = packWire({ enc: 'clear', load: { cmd, ...whole }, version });
      const address = `2001:db8:f::${(sent % 256).toString(16)}`;
      return async () => {
        const reply = await dial('stranger', address)
          .request(bytes, timeoutMs)
          .catch(() => undefined);
        return { answer: reply === undefined ? 'no reply' : 'reply' };
      };
    },
  }));
}

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: object }>>;
  };
}

/** Valid bodies for routes that have no useful example in their schema. */
const bodies: Readonly<Record<string, unknown>> = {
  'POST /': { client: 'local', tgt: '*', fun: 'test.ping', arg: [], kwarg: {} },
  'POST /run': {
    client: 'local',
    tgt: '*',
    fun: 'test.ping',
    eauth: 'sharedsecret',
    username: 'hostile',
    password: 's3cret',
  },
  'POST /minions': { tgt: '*', fun: 'test.ping' },
  'POST /bridge/v1/handles': {
    alias: 'h1',
    minions: ['hostile'],
    signal: { url: 'https://example.org/x', key: 'k' },
  },
  'PUT /bridge/v1/handles/{alias}': {
    alias: 'h1',
    minions: ['hostile'],
    signal: { url: 'https://example.org/x', key: 'k' },
  },
  'POST /bridge/v1/stacks': {
    name: 's1',
    servers: [{ server: 'server-1', minion: 'hostile' }],
    login: {
      auth_url: 'https://keystone.example.org:5000/v3',
      application_credential_id: 'id-1',
      application_credential_secret: 'a-secret',
    },
  },
  'POST /bridge/v1/data': { name: 'd1', guests: { hostile: {} } },
  'POST /bridge/v1/enrolments': { id: 'm1', project: 'p1' },
  'POST /bridge/v1/commands/{name}/run': { target: '*', parameters: { text: 'a' } },
  'POST /bridge/v1/plans/{name}/run': {
    parameters: { text: 'a' },
    groups: { all: { target: '*' } },
  },
};

/** Values of path parameters. */
const places: Readonly<Record<string, string>> = {
  alias: 'h1',
  guest: 'hostile',
  name: 'demo.echo',
  mid: 'hostile',
};

async function httpEntries(site: HostileSite): Promise<readonly Entry[]> {
  const answer = await send(
    site.port,
    { method: 'GET', path: '/openapi.json', headers: {} },
    Buffer.of(),
  );
  const { paths } = JSON.parse(answer?.text ?? '{}') as {
    paths: Record<string, Record<string, Operation>>;
  };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, it]) => httpEntry(site, method.toUpperCase(), path, it)),
  );
  const guestRoutes = Object.keys(paths).filter((path) => path.includes('/guest/'));
  return [
    ...routes,
    ...guestRoutes.map((path) => agentEntry(site, path)),
    ...guestRoutes.map((path) => listenerEntry(site, path)),
  ];
}

function httpEntry(site: HostileSite, method: string, path: string, it: Operation): Entry {
  const name = `${method} ${path}`;
  const [schema] = Object.values(it.requestBody?.content ?? {}).map((media) => media.schema);
  const inBody =
    schema === undefined ? [] : ['body', ...fieldsOf(schema).map((at) => `body.${at}`)];
  const parameters = (it.parameters ?? []).map((at) => `${at.in}.${at.name}`);
  const valid = bodies[name] ?? (schema === undefined ? undefined : exampleOf(schema));
  const isOfGuest = path.includes('/guest/');
  return {
    name: `route ${name}`,
    fields: [
      ...inBody,
      ...parameters,
      'path',
      'query',
      'header.authorization',
      'header.accept',
      'raw',
    ],
    maxBytes: megabyte,
    isOfOperator: path.includes('/rpc/'),
    prepare: (field, value) => {
      const body = field.startsWith('body') ? withField(valid, field.slice(5), value) : valid;
      const bytes =
        field === 'raw' ? Buffer.from(textOf(value)) : Buffer.from(jsonOf(body ?? null));
      const user = textOf(value).length % 3 === 0 ? 'admin' : 'hostile';
      const type =
        field === 'raw' && bytes.length % 2 === 0 ? 'application/x-yaml' : 'application/json';
      const headers: Record<string, string> = {
        'content-type': path.endsWith('/guest/data') ? 'text/plain' : type,
        accept: 'application/json',
        'x-auth-token': site.sessions[user] ?? '',
      };
      if (field.startsWith('header.')) headers[field.slice(7)] = headerText(value);
      const url = urlOf(path, field, value);
      const request = { method, path: url, headers, localAddress: addresses.hostile };
      if (isOfGuest) Object.assign(headers, agentHeaders(request, bytes));
      return () => ask(site, request, bytes, isCommandRoute(path));
    },
  };
}

/** Returns the signature of an agent for a request of the hostile guest. */
function agentHeaders(
  { method, path }: HttpRequest,
  body: Buffer,
): Readonly<Record<string, string>> {
  const agent = { name: 'net-1', secret: agentSecret };
  const guest = { instance: 'instance-hostile', project: 'p-hostile' };
  const signed = signAgentRequest(
    agent,
    guest,
    { method, path, body: method === 'GET' ? Buffer.of() : body },
    Date.now(),
  );
  return { 'x-saltbridge-agent': signed };
}

/** Entry for the fields of an agent's signature. */
function agentEntry(site: HostileSite, path: string): Entry {
  const fields = [
    'version',
    'agent',
    'time',
    'nonce',
    'instance',
    'project',
    'mac',
    'x-forwarded-for',
  ];
  return {
    name: `agent ${path}`,
    fields,
    maxBytes: 12_000,
    prepare: (field, value) => {
      const request = { method: 'GET', path, headers: {} };
      const parts = (agentHeaders(request, Buffer.of())['x-saltbridge-agent'] ?? '').split(';');
      const at = fields.indexOf(field);
      if (at < parts.length) parts[at] = headerText(value);
      const headers = {
        'x-saltbridge-agent': parts.join(';'),
        ...(at < parts.length ? {} : { [field]: headerText(value) }),
      };
      return () => ask(site, { ...request, headers, localAddress: addresses.hostile }, Buffer.of());
    },
  };
}

/** Entry for a path of the agent's own listener. Guests send their requests to this listener. */
function listenerEntry(site: HostileSite, path: string): Entry {
  const headerNames = ['x-neutron-network-id', 'x-neutron-router-id', 'x-forwarded-for'];
  const place = path.replace('/bridge/v1/guest/', '/saltbridge/v1/');
  return {
    name: `agent listener ${place}`,
    fields: [...headerNames.map((it) => `header.${it}`), 'path', 'query', 'query.key', 'raw'],
    maxBytes: 140_000,
    prepare: (field, value) => {
      const headers: Record<string, string> = {
        'x-neutron-network-id': 'net-A',
        'x-forwarded-for': '10.0.0.5',
      };
      if (field.startsWith('header.')) headers[field.slice(7)] = headerText(value);
      const bytes = Buffer.from(field === 'raw' ? textOf(value) : '{}');
      const method = textOf(value).length % 2 === 0 ? 'POST' : 'PUT';
      const request = { method, path: urlOf(place, field, value), headers };
      return () => ask({ socketPath: site.agentSocket }, request, bytes);
    },
  };
}

function rpcEntries(site: HostileSite): readonly Entry[] {
  const bridge = namedMethods(site.bridgeMethods);
  return [...rpcMethods, ...bridge].map(([name, method]) => rpcEntry(site, name, method));
}

/** Entry for a call on the local socket. If the method takes a token, a restricted user calls it. */
function rpcEntry(site: HostileSite, name: string, { parameters, access }: RpcMethod): Entry {
  const fields = fieldsOf(parameters);
  const valid = exampleOf(parameters);
  return {
    name: `method ${name}`,
    fields: [...fields, '', 'unknown'],
    maxBytes: megabyte,
    isOfOperator: true,
    prepare: (field, value) => {
      const isOfUser = access === 'user' && field !== 'token' && field !== '';
      const given = isOfUser ? withField(valid, 'token', site.token) : valid;
      const whole = withField(given, field, value);
      const headers = { 'content-type': 'application/json' };
      const request = { method: 'POST', path: `/rpc/${name}`, headers };
      const bytes = Buffer.from(jsonOf(whole));
      return () => ask({ socketPath: site.master.config.socket }, request, bytes);
    },
  };
}

/** Entries for runners and wheel functions, called over HTTP and by minions. */
async function functionEntries(site: HostileSite): Promise<readonly Entry[]> {
  const { master, contributions, hostile } = site;
  const called = async (client: 'runner' | 'wheel'): Promise<readonly Entry[]> => {
    const docs = await (client === 'runner' ? master.runners : master.wheel).docs();
    return Object.keys(docs).map((fun) => functionEntry(site, client, fun));
  };
  const ofMinions = [...contributions.minionRunners.keys()].map((fun) => ({
    name: `minion runner ${fun}`,
    fields: ['arg.0', 'kwarg.key', 'kwarg.value', 'kwarg.together', 'kwarg.unknown', 'kwarg'],
    maxBytes: megabyte,
    maxDepth: 200,
    prepare: (field: string, value: unknown) => {
      const whole = withField({ cmd: 'minion_runner', fun, arg: [], kwarg: {} }, field, value);
      const { bytes } = hostile.session.seal(Object(whole));
      return async () => {
        const reply = await hostile.transport.request(bytes, timeoutMs).catch(() => undefined);
        return { answer: reply === undefined ? 'no reply' : 'reply' };
      };
    },
  }));
  return [...(await called('runner')), ...(await called('wheel')), ...ofMinions];
}

/** Names of functions that the matrix does not call. */
const uncalled: ReadonlySet<string> = new Set<string>([]);

function functionEntry(site: HostileSite, client: 'runner' | 'wheel', fun: string): Entry {
  const names = [
    'name',
    'tgt',
    'tgt_type',
    'match',
    'jid',
    'id_',
    'path',
    'saltenv',
    'queue',
    'items',
    'url',
    'bank',
    'key',
    'uri',
    'tag',
    'data',
    'minion',
    'pillar',
    'mods',
    'limit',
    'search_function',
    'start_time',
    'env',
    'keysize',
  ];
  return {
    name: `${client} ${fun}`,
    fields: uncalled.has(fun) ? [] : ['arg', 'arg.0', 'kwarg', ...names.map((it) => `kwarg.${it}`)],
    maxBytes: megabyte,
    isOfOperator: true,
    prepare: (field, value) => {
      const body = withField({ client, fun, arg: [], kwarg: {} }, field, value);
      const user = client === 'wheel' || textOf(value).length % 2 === 0 ? 'admin' : 'hostile';
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json',
        'x-auth-token': site.sessions[user] ?? '',
      };
      const request = { method: 'POST', path: '/', headers, localAddress: addresses.hostile };
      const bytes = Buffer.from(jsonOf(body));
      return () => ask(site, request, bytes, true);
    },
  };
}

/** Maximum size of a value in a URL or a header. */
const maxHeaderBytes = 12_000;

function headerText(value: unknown): string {
  return textOf(value)
    .slice(0, maxHeaderBytes)
    .replaceAll(/[^\x20-\x7e]/g, '?');
}

function urlText(value: unknown): string {
  return encodeURIComponent(
    textOf(value)
      .slice(0, maxHeaderBytes / 3)
      .toWellFormed(),
  );
}

function urlOf(path: string, field: string, value: unknown): string {
  const filled = path.replaceAll(/\{([^}]*)\}/g, (_all, name: string) =>
    field === `path.${name}` ? urlText(value) : (places[name] ?? 'x1'),
  );
  if (field === 'path') return `${filled}/${urlText(value)}`;
  if (field === 'query') return `${filled}?${urlText(value)}`;
  if (field.startsWith('query.')) return `${filled}?${field.slice(6)}=${urlText(value)}`;
  return path.endsWith('/guest/data') ? `${filled}?key=hostile/x` : filled;
}

function isCommandRoute(path: string): boolean {
  return path === '/' || path === '/run' || path === '/minions';
}

/**
 * Sends a request and judges the answer. The statuses 500 and 504 are no defect where Salt's
 * clients expect them, if their text reveals nothing.
 */
async function ask(
  place: { readonly port: number } | { readonly socketPath: string },
  request: HttpRequest,
  bytes: Buffer,
  isCommand = false,
): Promise<Outcome> {
  const answer = await send('port' in place ? place.port : place.socketPath, request, bytes);
  if (answer === undefined) return { answer: 'no answer' };
  const defect = defectOf(answer, isCommand);
  return { answer: String(answer.status), ...(defect === undefined ? {} : { defect }) };
}

function defectOf({ status, text }: Answer, isCommand: boolean): string | undefined {
  if (/\n? +at .*\.(?:ts|js):\d+/.test(text)) return `a stack trace: ${text.slice(0, 300)}`;
  if (text.includes('ERR_INTERNAL')) return `${status}: ${text.slice(0, 300)}`;
  // The metadata agent answers 502 and 504 without a body.
  if (status < 500 || status === 503 || (status !== 500 && text === '')) return undefined;
  if (isCommand && (status === 504 || text.includes('An unexpected error occurred')))
    return undefined;
  return `${status}: ${text.slice(0, 300)}`;
}
