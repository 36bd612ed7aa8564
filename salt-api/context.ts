/** Declares the dependencies that all routes share, and identifies the callers of requests. */
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { MasterConfig } from '#config';
import {
  type CallGate,
  type InProcessApi,
  type MasterApi,
  requesterName,
  type UserApi,
} from '#master';
import type { WireValue } from '#minion-protocol';
import {
  addressOwner,
  type Budget,
  isSmallJson,
  linkSignals,
  longestTimerMs,
  type SendPool,
} from '#runtime';
import type { AnswerWriter } from './answer-writer.ts';
import type { Body, BodyBytes, BodyReader } from './body.ts';
import type { HttpConnections } from './connections.ts';
import { SaltApiError } from './errors.ts';
import type { EventEncoder, FlushTimer, StreamLimiter, StreamOwner } from './event-stream.ts';
import { type Format, formatFor } from './formats.ts';
import type { FormattedTexts } from './formatted-events.ts';
import type { StatePace } from './formatted-stream.ts';
import type { HostGuard } from './host-guard.ts';
import type { CompleteOptions } from './options.ts';
import { sessionTokenOf } from './session-token.ts';
import type { Sessions } from './sessions.ts';

/**
 * The master that the API serves. It runs in this process, or is connected through
 * `saltbridge/client`.
 */
export interface ServedMaster extends MasterApi {
  /**
   * Current configuration of a master in this process. It supplies defaults for options of the API.
   */
  readonly config?: MasterConfig;
  /**
   * Counter of the calls that requests have started. The master waits for these calls before it
   * restarts, and rejects new ones in the meantime. Absent: calls are not counted.
   * @internal
   */
  readonly calls?: CallGate | undefined;
}

/** Dependencies of the routes. */
export interface ApiContext {
  readonly master: InProcessApi & Pick<ServedMaster, 'calls' | 'config'>;
  readonly options: CompleteOptions;
  /**
   * Check of the host name and client address. It runs before all other processing of a request.
   */
  readonly hostGuard: HostGuard;
  readonly sessions: Sessions;
  readonly connections: HttpConnections;
  readonly bodies: BodyReader;
  readonly answers: AnswerWriter;
  /** Budget for the bytes of bodies from unidentified senders, by address. */
  readonly anonymousBodyBudget: Budget;
  /** Limits the total size of the results in the unfinished responses to each user. */
  readonly answerBudget: Budget;
  readonly streams: StreamLimiter;
  /** Memory budget for the responses that wait for slow readers, shared by all streams. */
  readonly sendPool: SendPool;
  readonly eventEncoder: EventEncoder;
  /** Cache of encoded returns for the streams of `/ws?format_events`. */
  readonly formattedTexts: FormattedTexts;
  readonly statePace: StatePace;
  /** Timer that determines when event streams are written. */
  readonly flushTimer: FlushTimer;
  /** Names of the clients that are served. */
  readonly clients: ReadonlySet<string>;
  readonly nextJid: () => string;
  /** Signal that is aborted when the server closes. It ends streams. */
  readonly closing: AbortSignal;
  readonly log: Logger;
}

/** The part of the context that identifies callers. */
export interface LoginContext {
  readonly master: Pick<MasterApi, 'asUser'> & {
    readonly logins: Pick<MasterApi['logins'], 'identify' | 'login' | 'logout'>;
  };
}

/** A user who has logged in. */
export interface Caller {
  /**
   * Token with which the user is logged in at the master. It is not the token of an HTTP session.
   */
  readonly token: string;
  /** Expiry time of the token, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly name: string;
  /** Back end of `external_auth` that authenticated the user. */
  readonly eauth: string;
  readonly user: UserApi;
}

/** A user who has a session. */
export interface SessionCaller extends Caller {
  /** Token of the session. */
  readonly sessionToken: string;
}

/**
 * Returns the caller of a request with a session.
 * @throws SaltApiError ERR_HTTP_SESSION; the message is the same for every reason
 */
export async function requireSession(
  context: ApiContext,
  { headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>,
): Promise<SessionCaller> {
  return requireSessionOf(context, sessionTokenOf(headers), ip);
}

/**
 * Returns the caller of a session whose token was in an unusual place, for example in the query.
 * @param address - address of the client
 * @throws SaltApiError ERR_HTTP_SESSION
 */
export async function requireSessionOf(
  context: ApiContext,
  sessionToken: string | undefined,
  address: string,
): Promise<SessionCaller> {
  if (sessionToken === undefined) throw new SaltApiError('ERR_HTTP_SESSION', 'no session');
  const { sessions } = context;
  const session = sessions.find(sessionToken) ?? (await sessions.expect(sessionToken, address));
  if (session === undefined) throw new SaltApiError('ERR_HTTP_SESSION', 'no session');
  return { ...(await resolveCaller(context, session.token)), sessionToken };
}

/**
 * Creates a function that returns the master's token for a request. If the request contains a
 * session token, this is the token with which the session's user is logged in at the master.
 * Otherwise, it is the token in the request, unchanged. The function returns `undefined` if the
 * request contains no token.
 */
export function tokenFinder(
  context: ApiContext,
): (request: Pick<FastifyRequest, 'headers'>) => string | undefined {
  return ({ headers }) => {
    const shown = sessionTokenOf(headers);
    return shown === undefined ? undefined : (context.sessions.find(shown)?.token ?? shown);
  };
}

/**
 * Returns the user that this token of the master belongs to.
 * @throws AuthenticationError
 */
export async function resolveCaller({ master }: LoginContext, token: string): Promise<Caller> {
  const { user: name, eauth, expire: expiresAt } = await master.logins.identify(token);
  return { token, expiresAt, name, eauth, user: master.asUser(token) };
}

/**
 * Returns the name under which limits count the work of a request: the user, or the client address
 * if the user is unknown.
 */
function ownerOf({ ip }: FastifyRequest, caller: Caller | undefined): string {
  return caller === undefined ? addressOwner(ip) : userOwner(caller);
}

/**
 * Returns the name under which limits count the work of a user. No client address is counted under
 * the same name.
 */
export function userOwner({ name, eauth }: Pick<Caller, 'name' | 'eauth'>): string {
  return requesterName({ kind: 'user', name, eauth });
}

/**
 * Returns the token and the user of a caller. The number of event streams is limited for each token
 * and for each user.
 */
export function streamOwnerOf(caller: Pick<Caller, 'name' | 'eauth' | 'token'>): StreamOwner {
  return { token: caller.token, user: userOwner(caller) };
}

/**
 * Returns the parsed body of a request.
 * @param caller - user who sent it; if absent, limits count the work for the client address
 * @throws SaltApiError ERR_HTTP_FORMAT, ERR_HTTP_BODY, ERR_HTTP_BUSY
 */
export function bodyOf(
  { bodies }: ApiContext,
  request: FastifyRequest,
  { isCommand = false, caller }: { readonly isCommand?: boolean; readonly caller?: Caller } = {},
): Promise<Body> {
  const owner = ownerOf(request, caller);
  return bodies.read(owner, request.headers['content-type'], bytesOf(request), isCommand);
}

/** Returns the body of a request as received. */
export function bytesOf({ body }: FastifyRequest): BodyBytes {
  return Array.isArray(body) ? body : [];
}

/**
 * Sends a response in the format that the client accepts. The format was checked before any work
 * was done.
 */
export function sendAnswer(
  { answers }: Pick<ApiContext, 'answers'>,
  request: FastifyRequest,
  reply: FastifyReply,
  value: WireValue,
  caller?: Caller,
): FastifyReply | Promise<FastifyReply> {
  const format = formatFor(request.headers.accept);
  reply.type(format.type);
  return isSmallJson(value)
    ? reply.send(format.write(value))
    : answerInSteps(answers, { format, owner: ownerOf(request, caller) }, reply, value);
}

/** Encodes the response without blocking the event loop. */
async function answerInSteps(
  answers: AnswerWriter,
  { format, owner }: { readonly format: Format; readonly owner: string },
  reply: FastifyReply,
  value: WireValue,
): Promise<FastifyReply> {
  const chunks = await answers.write(owner, format, value);
  const length = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return reply.header('content-length', length).send(Readable.from(chunks));
}

/**
 * Returns a signal that is aborted when a token expires. The abort immediately ends the streams
 * that use the token [THREATS A-05].
 */
export function tokenExpirySignal({ expiresAt }: Caller): AbortSignal {
  const left = Math.max(0, expiresAt - Date.now());
  return AbortSignal.timeout(Math.min(left, longestTimerMs));
}

/** Returns a signal that is aborted when the client disconnects or the server closes. */
export function requestEndSignal({ closing }: ApiContext, reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const { signal, unlink } = linkSignals(gone.signal, closing);
  // The client may have disconnected before this call, for example while its token was checked.
  if (reply.raw.destroyed) gone.abort();
  reply.raw.once('close', () => {
    // If the response is complete, nothing is left to abort.
    if (reply.raw.writableFinished) unlink();
    else gone.abort();
  });
  return signal;
}
