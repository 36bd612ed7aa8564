/**
 * Sends bodies to every route of an HTTP API, and reports responses that no client should ever
 * receive.
 */
import { type ClientRequest, request } from 'node:http';
import { type ReadingStep, readingSteps } from '#runtime';
import { maxReadingStep } from '#runtime/step-scheduler.ts';
import { bodyOf } from './http-bodies.ts';
import { Random } from './random.ts';

/** An HTTP API in this process, and credentials for it. */
export interface FuzzTarget {
  readonly port: number;
  /** Session tokens, and invalid tokens. */
  readonly tokens: readonly string[];
}

/** Selection of the bodies to send. */
export interface FuzzPlan {
  readonly seed: number;
  /** Number of the first body. The same number and seed give the same body. */
  readonly first: number;
  readonly count: number;
}

/** Result of a run. */
export interface FuzzOutcome {
  readonly statuses: ReadonlyMap<number, number>;
  /** Problems, each with the number of the body. */
  readonly problems: readonly string[];
  readonly largestStep: ReadingStep;
}

interface Route {
  readonly method: string;
  readonly path: string;
}

/** Request to send. */
export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Address from which the request is sent. Default: 127.0.0.1. */
  readonly localAddress?: string;
}

/** Response to a request. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly text: string;
}

/** Number of concurrent requests. */
const lanes = 8;

/** Default time limit for one request, in milliseconds. It ends streams. */
const patienceMs = 5000;

export async function fuzz(target: FuzzTarget, plan: FuzzPlan): Promise<FuzzOutcome> {
  const routes = await routesOf(target.port);
  const statuses = new Map<number, number>();
  const problems: string[] = [];
  let largestStep: ReadingStep = { characters: 0, values: 0 };
  const note = (step: unknown): void => {
    const { characters, values } = step as ReadingStep; // as it is published
    largestStep = {
      characters: Math.max(characters, largestStep.characters),
      values: Math.max(values, largestStep.values),
    };
    if (characters > maxReadingStep.characters || values > maxReadingStep.values) {
      problems.push(`a step of ${characters} characters and ${values} values`);
    }
  };
  readingSteps.subscribe(note);
  let next = plan.first;
  const lane = async (): Promise<void> => {
    while (next < plan.first + plan.count) {
      const index = next;
      next += 1;
      const problem = await tryOne(target, routes, new Random(plan.seed, index), statuses);
      if (problem !== undefined) problems.push(`body ${index}: ${problem}`);
    }
  };
  try {
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    readingSteps.unsubscribe(note);
  }
  return { statuses, problems, largestStep };
}

async function tryOne(
  { port, tokens }: FuzzTarget,
  routes: readonly [Route, ...Route[]],
  random: Random,
  statuses: Map<number, number>,
): Promise<string | undefined> {
  const { method, path } = random.of(routes);
  const { type, bytes } = bodyOf(random);
  const token = random.of(['', ...tokens]);
  const headers = {
    'content-type': type,
    accept: random.of(['application/json', 'application/x-yaml', '*/*']),
    ...(token === '' ? {} : { 'x-auth-token': token }),
    ...(token.length === 64 ? { authorization: `Bearer ${token}` } : {}),
  };
  const answer = await send(port, { method, path, headers }, bytes);
  if (answer === undefined) return undefined;
  const { status } = answer;
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
  if (isFine(answer, path, bytes.toString())) return undefined;
  return `${method} ${path} ${type}: ${status} ${answer.text.slice(0, 200)}`;
}

/**
 * Whether a response is allowed. Salt's clients expect 500 for an unknown runner function or
 * nodegroup, and 504 for a slow runner.
 */
function isFine({ status, retryAfter, text }: Answer, path: string, body: string): boolean {
  if (status < 500) return true;
  const isCommand = path === '/' || path === '/run' || path === '/minions';
  if (status === 504) return isCommand;
  if (status === 503) return retryAfter !== undefined;
  const mayFail = /runner|nodegroup|N@/.test(body);
  return status === 500 && isCommand && mayFail && text.includes('An unexpected error occurred');
}

/**
 * Sends a request.
 * @param place - port on this host, or path of a Unix socket
 * @returns `undefined` if the response has no end or the server closed the
 * connection.
 */
export function send(
  place: number | string,
  options: HttpRequest,
  bytes: Buffer,
  timeoutMs: number = patienceMs,
): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const outgoing: ClientRequest = request(
      {
        ...options,
        ...(typeof place === 'string' ? { socketPath: place } : { host: '127.0.0.1', port: place }),
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = [];
        const { statusCode: status = 0, headers } = response;
        const end = (): void => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status, retryAfter: headers['retry-after'], text });
        };
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', end);
        response.on('error', end);
        const isStream = /event-stream|ndjson/.test(headers['content-type'] ?? '');
        if (isStream) setTimeout(() => outgoing.destroy(), 50);
      },
    );
    outgoing.setTimeout(timeoutMs, () => outgoing.destroy());
    outgoing.on('error', () => resolve(undefined));
    outgoing.end(options.method === 'GET' ? undefined : bytes);
  });
}

/** Returns all methods of all paths that the API describes, with path parameters filled in. */
async function routesOf(port: number): Promise<readonly [Route, ...Route[]]> {
  const answer = await send(
    port,
    { method: 'GET', path: '/openapi.json', headers: {} },
    Buffer.of(),
  );
  const { paths } = JSON.parse(answer?.text ?? '{}') as { paths: Record<string, object> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: path.replace(/\{[^}]*\}/g, 'x1'),
    })),
  );
  const [first, ...more] = routes;
  if (first === undefined) throw new Error('the API says that it has no routes');
  return [first, ...more];
}
