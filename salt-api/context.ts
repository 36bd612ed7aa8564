/** What every route works with, and whom a request is of. */
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { MasterConfig } from '#config';
import type { CallGate, InProcessApi, MasterApi, UserApi } from '#master';
import type { WireValue } from '#minion-protocol';
import { type Budget, isSmallJson, linkSignals, longestTimerMs, type SendPool } from '#runtime';
import type { AnswerWriter } from './answer-writer.ts';
import type { Body, BodyBytes, BodyReader } from './body.ts';
import type { HttpConnections } from './connections.ts';
import { SaltApiError } from './errors.ts';
import type { EventEncoder, FlushTimer, StreamLimiter } from './event-stream.ts';
import { type Format, formatFor } from './formats.ts';
import type { HostGuard } from './host-guard.ts';
import type { CompleteOptions } from './options.ts';
import { sessionTokenOf } from './session-token.ts';
import type { Sessions } from './sessions.ts';

/** The master whose API it is: in this process, or one that `saltbridge/client` is connected to. */
export interface ServedMaster extends MasterApi {
  /** What a master of this process has in force: defaults for the API's options. */
  readonly config?: MasterConfig;
  /** Counts what requests begin, where it is to be known. @internal */
  readonly calls?: CallGate | undefined;
}

/** What routes share. */
export interface ApiContext {
  readonly master: InProcessApi & Pick<ServedMaster, 'calls' | 'config'>;
  readonly options: CompleteOptions;
  /** Looked at before anything else. */
  readonly hostGuard: HostGuard;
  readonly sessions: Sessions;
  readonly connections: HttpConnections;
  readonly bodies: BodyReader;
  readonly answers: AnswerWriter;
  /** Bytes of bodies whose senders are not known, by address. */
  readonly anonymousBodyBudget: Budget;
  readonly streams: StreamLimiter;
  /** What waits for the readers of all streams. */
  readonly sendPool: SendPool;
  readonly eventEncoder: EventEncoder;
  /** When event streams write. */
  readonly flushTimer: FlushTimer;
  /** Clients that are served. */
  readonly clients: ReadonlySet<string>;
  readonly nextJid: () => string;
  /** Fires when the server is closed: streams end. */
  readonly closing: AbortSignal;
  readonly log: Logger;
}

/** Somebody who logged in. */
export interface Caller {
  /** Salt's token. */
  readonly token: string;
  /** When it ends, milliseconds since 1970. */
  readonly expiresAt: number;
  readonly name: string;
  readonly user: UserApi;
}

/** Somebody who has a session. */
export interface SessionCaller extends Caller {
  /** What the session is asked for by. */
  readonly sessionToken: string;
}

/** Whose session a request uses. @throws SaltApiError ERR_HTTP_SESSION, the same for whatever is wrong */
export async function requireSession(
  context: ApiContext,
  request: Pick<FastifyRequest, 'headers'>,
): Promise<SessionCaller> {
  const sessionToken = sessionTokenOf(request.headers);
  return requireSessionOf(context, sessionToken);
}

/** The same, of a token that stands elsewhere. @throws SaltApiError ERR_HTTP_SESSION */
export async function requireSessionOf(
  context: ApiContext,
  sessionToken: string | undefined,
): Promise<SessionCaller> {
  if (sessionToken === undefined) throw new SaltApiError('ERR_HTTP_SESSION', 'no session');
  const { sessions } = context;
  const session = sessions.find(sessionToken) ?? (await sessions.expect(sessionToken));
  if (session === undefined) throw new SaltApiError('ERR_HTTP_SESSION', 'no session');
  return { ...(await resolveCaller(context, session.token)), sessionToken };
}

/** Finds the master's token of a request: behind its session, or shown by itself. */
export function tokenFinder(
  context: ApiContext,
): (request: Pick<FastifyRequest, 'headers'>) => string | undefined {
  return ({ headers }) => {
    const shown = sessionTokenOf(headers);
    return shown === undefined ? undefined : (context.sessions.find(shown)?.token ?? shown);
  };
}

/** Whoever has one of Salt's tokens. @throws AuthenticationError */
export async function resolveCaller({ master }: ApiContext, token: string): Promise<Caller> {
  const { user: name, expire: expiresAt } = await master.logins.identify(token);
  return { token, expiresAt, name, user: master.asUser(token) };
}

/** What a request brought. @throws SaltApiError ERR_HTTP_FORMAT, ERR_HTTP_BODY, ERR_HTTP_BUSY */
export function bodyOf(
  { bodies }: ApiContext,
  request: FastifyRequest,
  isCommand = false,
): Promise<Body> {
  return bodies.read(request.headers['content-type'], bytesOf(request), isCommand);
}

/** The body as it came. */
export function bytesOf({ body }: FastifyRequest): BodyBytes {
  return Array.isArray(body) ? body : [];
}

/** Answers in the format that is accepted, which was checked before anything was done. */
export function sendAnswer(
  { answers }: Pick<ApiContext, 'answers'>,
  request: FastifyRequest,
  reply: FastifyReply,
  value: WireValue,
): FastifyReply | Promise<FastifyReply> {
  const format = formatFor(request.headers.accept);
  reply.type(format.type);
  return isSmallJson(value)
    ? reply.send(format.write(value))
    : answerInSteps(answers, format, reply, value);
}

/** Neither writing it nor making bytes of it holds the event loop. */
async function answerInSteps(
  answers: AnswerWriter,
  format: Format,
  reply: FastifyReply,
  value: WireValue,
): Promise<FastifyReply> {
  const chunks = await answers.write(format, value);
  const length = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return reply.header('content-length', length).send(Readable.from(chunks));
}

/** Fires when a token expires: streams of it end at once [THREATS A-05]. */
export function tokenExpirySignal({ expiresAt }: Caller): AbortSignal {
  const left = Math.max(0, expiresAt - Date.now());
  return AbortSignal.timeout(Math.min(left, longestTimerMs));
}

/** Fires when whoever asked has gone, or the server is being closed. */
export function requestEndSignal({ closing }: ApiContext, reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const { signal, unlink } = linkSignals(gone.signal, closing);
  reply.raw.once('close', () => {
    // What was answered has nothing left to end.
    if (reply.raw.writableFinished) unlink();
    else gone.abort();
  });
  return signal;
}
