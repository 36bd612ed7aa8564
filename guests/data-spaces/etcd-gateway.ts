/** Client of etcd's JSON gateway [etcd 3.4: API, gRPC gateway], for calls and streams. */

import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { awaitResponse, isMap, readJsonAnswer, readText, timeLimit } from '#runtime';

/** Credentials and certificates for a connection, which are read from files. */
export interface EtcdAccess {
  readonly tls?: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer };
  readonly user?: { readonly name: string; readonly password: string };
}

export interface EtcdGatewayOptions {
  /**
   * URLs of the servers, for example `https://etcd-1.example.org:2379`. A request tries the server
   * that responded last, then the others in this order.
   */
  readonly endpoints: readonly string[];
  /**
   * Reads the credentials. It is called again after a failure, in case the files have been renewed.
   * @throws Error
   */
  readonly readAccess: () => Promise<EtcdAccess>;
  /** Maximum time to wait for one server, in milliseconds. */
  readonly timeoutMs: number;
}

/** Response of etcd. */
export type EtcdAnswer = Readonly<Record<string, unknown>>;

/** Maximum size of a response, and of one line of a stream, in bytes. */
const maxAnswerBytes = 16_777_216;
/**
 * Minimum time between a rejected login and the next one, in milliseconds. Each login costs etcd a
 * bcrypt computation.
 */
const logInRetryMs = 30_000;

interface Session {
  readonly access: EtcdAccess;
  readonly agents: { readonly 'http:': http.Agent; readonly 'https:': https.Agent };
  token: Promise<string> | undefined;
}

/** Error response of etcd. */
class EtcdRefusal extends Error {
  /** Whether etcd rejected the token. A new login can then help. */
  readonly isOfToken: boolean;

  constructor(status: number, text: string) {
    super(`etcd responded with status ${status}: ${text}`);
    this.isOfToken =
      status === 401 || /auth token|user name is empty|revision in header/.test(text);
  }
}

export class EtcdGateway {
  readonly #options: EtcdGatewayOptions;
  #endpoints: readonly string[];
  #session: Promise<Session> | undefined;
  #refusedLogIn: { readonly until: number; readonly error: Error } | undefined;

  constructor(options: EtcdGatewayOptions) {
    this.#options = options;
    this.#endpoints = options.endpoints;
  }

  /**
   * Calls a method of etcd.
   * @param path - path of the method, for example `/v3/kv/range`
   * @throws Error if no server performs the call
   */
  async call(path: string, body: object): Promise<EtcdAnswer> {
    return readAnswer(await this.#readInTime(await this.#open(path, body)));
  }

  /**
   * Calls a method of etcd that responds with a stream, and yields each response until the signal
   * fires. Each line of the stream is one response.
   * @throws Error
   */
  async *stream(path: string, body: object, closing: AbortSignal): AsyncGenerator<EtcdAnswer> {
    const response = await this.#open(path, body);
    const end = (): void => {
      response.destroy();
    };
    closing.addEventListener('abort', end, { once: true });
    try {
      if (closing.aborted) return;
      response.socket.setKeepAlive(true, 10_000);
      response.setEncoding('utf8');
      for await (const line of linesOf(response)) yield await readAnswer(line);
    } finally {
      closing.removeEventListener('abort', end);
      end();
    }
  }

  /** Closes the connections. */
  async close(): Promise<void> {
    await this.#forgetSession();
  }

  /** Sends a request to the first server that responds. */
  async #open(path: string, body: object): Promise<IncomingMessage> {
    let problem: unknown;
    for (const endpoint of this.#endpoints) {
      try {
        const response = await this.#openWithToken(endpoint, path, body);
        if (endpoint !== this.#endpoints[0]) {
          this.#endpoints = [endpoint, ...this.#endpoints.filter((it) => it !== endpoint)];
        }
        return response;
      } catch (error) {
        problem = error;
      }
    }
    await this.#forgetSession();
    throw problem;
  }

  async #openWithToken(endpoint: string, path: string, body: object): Promise<IncomingMessage> {
    const session = await this.#currentSession();
    const token = await this.#tokenOf(session, endpoint);
    try {
      return await this.#send(session, { endpoint, path, body, token });
    } catch (error) {
      if (!(error instanceof EtcdRefusal && error.isOfToken && token !== undefined)) throw error;
      // The token has expired, because etcd expires tokens that are not used.
      session.token = undefined;
      const next = await this.#tokenOf(session, endpoint);
      return this.#send(session, { endpoint, path, body, token: next });
    }
  }

  #currentSession(): Promise<Session> {
    this.#session ??= this.#options.readAccess().then((access) => {
      const kept = { keepAlive: true, maxSockets: 128 };
      const agents = {
        'http:': new http.Agent(kept),
        'https:': new https.Agent({ ...kept, ...access.tls }),
      };
      return { access, agents, token: undefined };
    });
    return this.#session;
  }

  async #forgetSession(): Promise<void> {
    const known = this.#session;
    this.#session = undefined;
    // Ignore the error. If the files could not be read, the call that opened the session has
    // received it.
    const session = await known?.catch(() => undefined);
    // Close idle connections only. Requests in progress keep theirs until they end.
    for (const agent of Object.values(session?.agents ?? {})) {
      for (const sockets of Object.values(agent.freeSockets))
        for (const it of sockets ?? []) it.destroy();
    }
  }

  /** Returns the token of a session. Concurrent callers share one login. */
  async #tokenOf(session: Session, endpoint: string): Promise<string | undefined> {
    const { user } = session.access;
    if (user === undefined) return undefined;
    const refused = this.#refusedLogIn;
    if (refused !== undefined && performance.now() < refused.until) throw refused.error;
    session.token ??= this.#logIn(session, endpoint, user);
    try {
      return await session.token;
    } catch (error) {
      session.token = undefined;
      throw error;
    }
  }

  async #logIn(
    session: Session,
    endpoint: string,
    user: NonNullable<EtcdAccess['user']>,
  ): Promise<string> {
    try {
      const path = '/v3/auth/authenticate';
      const request = { endpoint, path, body: user, token: undefined };
      const response = await this.#readInTime(await this.#send(session, request));
      const { token } = await readAnswer(response);
      if (typeof token === 'string') return token;
      throw new Error('the response of etcd to the login contains no token');
    } catch (error) {
      if (error instanceof EtcdRefusal) {
        this.#refusedLogIn = { until: performance.now() + logInRetryMs, error };
      }
      throw error;
    }
  }

  async #send(session: Session, request: GatewayRequest): Promise<IncomingMessage> {
    const { timeoutMs } = this.#options;
    const { signal, clear } = timeLimit(timeoutMs);
    try {
      const response = await send(session, request, signal);
      if (response.statusCode === 200) return response;
      const text = await this.#readInTime(response);
      const answer = await readJsonAnswer(text);
      const { error, message } = isMap(answer) ? answer : {};
      const reason = String(message ?? error ?? text).slice(0, 300);
      throw new EtcdRefusal(response.statusCode ?? 0, reason);
    } catch (error) {
      if (!signal.aborted) throw error;
      throw new Error(`etcd at ${request.endpoint} did not respond within ${timeoutMs} ms`, {
        cause: error,
      });
    } finally {
      clear();
    }
  }

  async #readInTime(response: IncomingMessage): Promise<string> {
    const late = new Error(
      `etcd did not complete its response within ${this.#options.timeoutMs} ms`,
    );
    const tooLarge = () => new Error(`etcd sent a response of more than ${maxAnswerBytes} bytes`);
    const timer = setTimeout(() => response.destroy(late), this.#options.timeoutMs);
    try {
      return await readText(response, maxAnswerBytes, tooLarge);
    } finally {
      clearTimeout(timer);
    }
  }
}

interface GatewayRequest {
  readonly endpoint: string;
  readonly path: string;
  readonly body: object;
  readonly token: string | undefined;
}

/**
 * Sends a request. If the server has closed the idle connection, sends the request again on a new
 * connection.
 */
async function send(
  session: Session,
  request: GatewayRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  for (;;) {
    const { outgoing, response } = startRequest(session, request, signal);
    try {
      return await response;
    } catch (error) {
      if (!outgoing.reusedSocket || signal.aborted) throw error;
    }
  }
}

function startRequest(
  { agents }: Session,
  { endpoint, path, body, token }: GatewayRequest,
  signal: AbortSignal,
): { readonly outgoing: http.ClientRequest; readonly response: Promise<IncomingMessage> } {
  const url = new URL(path, endpoint);
  const content = JSON.stringify(body);
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(content),
    // Ask etcd to end a stream when its server loses the leader of the cluster.
    'grpc-metadata-hasleader': 'true',
    ...(token === undefined ? {} : { authorization: token }),
  };
  const isTls = url.protocol === 'https:';
  const outgoing = isTls
    ? https.request(url, { method: 'POST', headers, signal, agent: agents['https:'] })
    : http.request(url, { method: 'POST', headers, signal, agent: agents['http:'] });
  const response = awaitResponse(outgoing);
  outgoing.end(content);
  return { outgoing, response };
}

/**
 * Yields the lines of a stream, without empty lines and without an unfinished last line.
 * @throws Error if a line is too long
 */
async function* linesOf(stream: AsyncIterable<string>): AsyncGenerator<string> {
  let line = '';
  for await (const part of stream) {
    const [first = '', ...others] = part.split('\n');
    // A line that arrives in many parts is not searched again for each part.
    line += first;
    for (const other of others) {
      if (line !== '') yield line;
      line = other;
    }
    if (line.length > maxAnswerBytes)
      throw new Error(`etcd sent a line of more than ${maxAnswerBytes} bytes`);
  }
}

async function readAnswer(text: string): Promise<EtcdAnswer> {
  const answer = await readJsonAnswer(text);
  if (isMap(answer)) return answer;
  throw new Error('the response of etcd is not a JSON object');
}
