/**
 * What guests ask for: as runners of their minions, and over HTTPS. Both ways are decided by the
 * same rules: the action `runner`, for the minion, with the arguments as keywords.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { BridgeError } from '#heat-bridge/errors.ts';
import { httpProblemOf } from '#heat-bridge/http-problems.ts';
import type { HttpServerContext } from '#heat-bridge/http/http-server-context.ts';
import { describeRoute } from '#heat-bridge/http/route-schema.ts';
import {
  AuthorizationError,
  type ExtensionHost,
  type MinionRunnerCall,
  type MinionRunners,
} from '#master';
import type { WireMap } from '#minion-protocol';
import type { DataReceipt, DataValue, DataValues, ReadRequest } from './data-spaces/data-values.ts';
import type { Guest, GuestTokens } from './guest-tokens.ts';
import {
  type AgentCredentials,
  type AgentInstance,
  agentHeader,
  type IdentifiedInstance,
} from './metadata-agent/agent-credentials.ts';
import type { AddressOf, PeerDirectory, PeerList } from './peers/peers.ts';

/** Names of the runners, which rules of the action `runner` name. */
export const guestRunners = {
  get: 'saltbridge_data.get',
  put: 'saltbridge_data.put',
  peers: 'saltbridge_peers.list',
} as const;

/** Seconds that one request waits at most; whoever waits longer asks again. */
const maxWaitSeconds = 25;

const strict = { additionalProperties: false };
const Key = Type.String({ minLength: 1, maxLength: 200 });
const Wait = Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 }));
const After = Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 47 }));
const isGet = Compile(Type.Object({ key: Key, wait: Wait, after: After }, strict));
const isPeers = Compile(Type.Object({ together: Type.Optional(Type.Boolean()) }, strict));
const isPut = Compile(Type.Object({ key: Key, value: Type.String() }, strict));

type HostOfGuests = Pick<ExtensionHost, 'audit' | 'decide' | 'logger'>;

export interface GuestRequestsDeps {
  readonly host: HostOfGuests;
  readonly values: DataValues;
  readonly peers: PeerDirectory;
  /** Where minions are heard from now. */
  readonly addresses: () => Promise<AddressOf>;
}

/** The requests, whichever way they come. */
export class GuestRequests {
  readonly #host: HostOfGuests;
  readonly #values: DataValues;
  readonly #peers: PeerDirectory;
  readonly #addresses: GuestRequestsDeps['addresses'];

  constructor({ host, values, peers, addresses }: GuestRequestsDeps) {
    this.#host = host;
    this.#values = values;
    this.#peers = peers;
    this.#addresses = addresses;
  }

  /** @throws BridgeError ERR_DATA_FORM, ERR_ENROLL_UNKNOWN */
  async peers(minion: string, given: object = {}): Promise<PeerList> {
    const { together = false } = parse(isPeers, given);
    return this.#peers.of(minion, await this.#addresses(), together);
  }

  /** @throws BridgeError; see {@link DataValues.read} */
  async get(minion: string, given: object, isPrivate: boolean): Promise<DataValue> {
    const { key, wait = 0, after } = parse(isGet, given);
    const request: ReadRequest = {
      key,
      waitMs: Math.min(wait, maxWaitSeconds) * 1000,
      ...(after === undefined ? {} : { after }),
    };
    return this.#values.read({ minion, isPrivate }, request);
  }

  /** @throws BridgeError; see {@link DataValues.write} */
  async put(minion: string, given: object): Promise<DataReceipt> {
    const { key, value } = parse(isPut, given);
    const receipt = await this.#values.write(minion, key, value);
    this.#host.audit.append({
      who: { kind: 'minion', name: minion },
      action: 'data.put',
      what: `${key} ${receipt.version}`,
      outcome: 'done',
    });
    return receipt;
  }

  /** Whether rules permit a minion a runner with these keywords. */
  permits(minion: string, fun: string, kwargs: Readonly<Record<string, string>>): boolean {
    const call = { fun, args: [], kwargs: new Map(Object.entries(kwargs)) };
    const subject = { kind: 'minion', id: minion } as const;
    const { effect } = this.#host.decide({ subject, action: 'runner', resource: { call } });
    return effect === 'allow';
  }

  /** For minions; the master has asked the policy. */
  get runners(): MinionRunners {
    return {
      [guestRunners.get]: (call) =>
        this.#answer(async () => ({
          ...(await this.get(call.minion, keywordsOf(call), call.protocol >= 3)),
        })),
      [guestRunners.peers]: (call) =>
        this.#answer(async () => peersAsWire(await this.peers(call.minion, keywordsOf(call)))),
      [guestRunners.put]: (call) =>
        this.#answer(async () => ({ ...(await this.put(call.minion, keywordsOf(call))) })),
    };
  }

  /** An error is an answer with its code, which the module on the minion raises. */
  async #answer(work: () => Promise<WireMap>): Promise<WireMap> {
    try {
      return await work();
    } catch (error) {
      const { code, message } = httpProblemOf(error);
      if (code === 'ERR_INTERNAL') this.#host.logger.error({ err: error }, 'guest request failed');
      return { error: { code, message } };
    }
  }
}

/** As a minion gets it. */
export function peersAsWire(list: PeerList): WireMap {
  return JSON.parse(JSON.stringify(list));
}

/** @throws BridgeError ERR_DATA_FORM */
function keywordsOf({ arg, kwarg }: MinionRunnerCall): object {
  if (arg.length === 0) return kwarg;
  throw new BridgeError('ERR_DATA_FORM', 'expected keywords, such as key, and no other arguments');
}

interface CompiledForm<T> {
  Errors(value: unknown): readonly { readonly instancePath: string; readonly message: string }[];
  Parse(value: unknown): T;
}

/** @throws BridgeError ERR_DATA_FORM, without a value */
function parse<T>(form: CompiledForm<T>, given: object): T {
  const [first] = form.Errors(given);
  if (first === undefined) return form.Parse(given);
  const field = first.instancePath.slice(1) || 'the request';
  throw new BridgeError('ERR_DATA_FORM', `${field}: ${first.message}`);
}

// Routes, for machines with a token of their enrolment.

const textTypes = ['text/plain'];
const text: TSchema = Type.String();
const PeersSchema = Type.Object({
  project_id: text,
  self: Type.Optional(text),
  truncated: Type.Optional(Type.Literal(true)),
  peers: Type.Array(
    Type.Object({
      id: Type.Optional(text),
      minion: Type.Optional(text),
      name: Type.Optional(text),
      address: Type.Optional(text),
      availability_zone: Type.Optional(text),
      reservation_id: Type.Optional(text),
      security_groups: Type.Array(Type.Object({ id: Type.Optional(text), name: text })),
      networks: Type.Array(
        Type.Object({
          id: text,
          label: text,
          mac: text,
          addresses: Type.Array(
            Type.Object({ address: text, version: Type.Integer(), cidr: Type.Optional(text) }),
          ),
        }),
      ),
    }),
  ),
});
const receiptSchema = Type.Object({ key: text, version: Type.Integer() });

/** Of each route, what it is. */
const routes: Readonly<Record<'get' | 'peers' | 'program' | 'put', FastifySchema>> = {
  get: describeRoute({
    summary: "A value that the machine's role reads, as text; X-Saltbridge-Version has its version",
    query: { key: text, wait: Type.Optional(Type.Number()), after: Type.Optional(Type.Integer()) },
    answer: text,
    answerTypes: textTypes,
  }),
  put: describeRoute({
    summary: "Writes a value of the machine's role",
    query: { key: text },
    body: text,
    bodyTypes: textTypes,
    answer: receiptSchema,
  }),
  peers: describeRoute({
    summary: "Instances of the machine's project: its peers",
    query: { together: Type.Optional(Type.Boolean()) },
    answer: PeersSchema,
  }),
  program: describeRoute({
    summary: 'The program saltbridge-data, for machines with a shell',
    answer: text,
    answerTypes: textTypes,
  }),
};

const plainText = 'text/plain; charset=utf-8';
/** Beyond the largest value, so that one that is too large is told so. */
const bodyLimit = 131_072;

interface DataQuery {
  readonly Querystring: Readonly<Record<string, string>>;
}

export interface GuestRoutesDeps {
  readonly requests: GuestRequests;
  readonly guestOf: GuestIdentifier;
  /** Text of `saltbridge-data`. */
  readonly program: string;
}

/** Who asks: by an agent, or with a token. @throws AuthenticationError ERR_EAUTH_TOKEN; BridgeError ERR_ENROLL_UNKNOWN */
export type GuestIdentifier = (request: FastifyRequest) => Promise<Guest>;

export interface GuestIdentifierDeps {
  readonly tokens: GuestTokens;
  readonly agents: AgentCredentials;
  /** @throws BridgeError ERR_ENROLL_UNKNOWN */
  readonly guestOfAgent: (found: AgentInstance) => Guest;
}

export function createGuestIdentifier(
  doors: HttpServerContext,
  { tokens, agents, guestOfAgent }: GuestIdentifierDeps,
): GuestIdentifier {
  return async (request) => {
    if (request.headers[agentHeader] === undefined) {
      return tokens.identify(doors.tokenOf(request) ?? '');
    }
    return guestOfAgent(identifyByAgent(request, agents));
  };
}

/** `GET` and `PUT guest/data?key=KEY`, `GET guest/peers` and `GET guest/saltbridge-data`. */
export function addGuestRoutes(
  app: FastifyInstance,
  { requests, guestOf, program }: GuestRoutesDeps,
): void {
  const requirePermitted = (
    { minion }: Guest,
    fun: string,
    kwargs: Readonly<Record<string, string>>,
  ): void => {
    // protection: guest-rules
    if (!requests.permits(minion, fun, kwargs)) {
      throw new AuthorizationError(`no rule permits this minion the runner ${fun}`);
    }
  };
  const permitted = async (
    request: FastifyRequest<DataQuery>,
    fun: string,
  ): Promise<{ readonly guest: Guest; readonly key: string }> => {
    const guest = await guestOf(request);
    const { key = '' } = request.query;
    requirePermitted(guest, fun, { key });
    return { guest, key };
  };
  app.get<DataQuery>('/guest/peers', { schema: routes.peers }, async (request) => {
    const guest = await guestOf(request);
    const { together } = request.query;
    requirePermitted(guest, guestRunners.peers, together === undefined ? {} : { together });
    return requests.peers(guest.minion, { together: together === 'true' });
  });
  app.get<DataQuery>(
    '/guest/data',
    { schema: routes.get },
    async (request, reply): Promise<FastifyReply> => {
      const { guest, key } = await permitted(request, guestRunners.get);
      const { wait, after } = request.query;
      const given = {
        key,
        ...(wait === undefined ? {} : { wait: Number(wait) }),
        ...(after === undefined ? {} : { after: Number(after) }),
      };
      const { value, version } = await requests.get(guest.minion, given, true);
      return reply.type(plainText).header('x-saltbridge-version', version).send(value);
    },
  );
  app.put<DataQuery>('/guest/data', { bodyLimit, schema: routes.put }, async (request) => {
    const { guest, key } = await permitted(request, guestRunners.put);
    return requests.put(guest.minion, { key, value: textOf(request.body) });
  });
  app.get('/guest/saltbridge-data', { schema: routes.program }, async (request, reply) => {
    await guestOf(request);
    return reply.type(plainText).send(program);
  });
}

/** The instance that a metadata agent asks for. @throws AuthenticationError ERR_EAUTH_TOKEN */
export function identifyByAgent(
  { method, url: path, body, headers }: FastifyRequest,
  agents: AgentCredentials,
): IdentifiedInstance {
  const request = { method, path, body: Buffer.concat(bytesOf(body)) };
  return agents.identify(String(headers[agentHeader]), request);
}

/** A body that is not JSON, as it came. */
function bytesOf(body: unknown): readonly Uint8Array[] {
  return Array.isArray(body) ? body.filter((part) => part instanceof Uint8Array) : [];
}

/** A body that is not JSON comes as the bytes that were read. @throws BridgeError ERR_DATA_VALUE */
export function textOf(body: unknown): string {
  try {
    const bytes = Buffer.concat(bytesOf(body));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new BridgeError('ERR_DATA_VALUE', 'the body: expected text in UTF-8', { cause });
  }
}
