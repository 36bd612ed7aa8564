/** A server on loopback with the recorded responses of a real Keystone (test/fixtures/keystone). */
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { ExecutionContext } from 'ava';
import { type Answerer, type Recorded, startRecorder } from '../signals/recorder.ts';

interface Exchange {
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number;
  readonly answer: Readonly<Record<string, string>>;
  readonly body: string;
}

const file = new URL('../../../test/fixtures/keystone/tokens.json', import.meta.url);
const exchanges: Readonly<Record<string, Exchange>> = JSON.parse(readFileSync(file, 'utf8'));

/** Name of a recorded exchange. */
export type ExchangeName =
  | 'log-in'
  | 'log-in-refused'
  | 'not-permitted'
  | 'revoked'
  | 'sahara'
  | 'service-ended'
  | 'tenant'
  | 'trove'
  | 'unknown'
  | 'unscoped';

export function exchangeOf(name: ExchangeName): Exchange {
  const exchange = exchanges[name];
  if (exchange === undefined) throw new TypeError(`no exchange ${name}`);
  return exchange;
}

/** Returns the token in a recorded exchange. */
export function tokenOf(name: Exclude<ExchangeName, 'log-in' | 'log-in-refused'>): string {
  return exchangeOf(name).headers['X-Subject-Token'] ?? '';
}

/** Password that the recorded Keystone accepts. */
export const servicePassword = 'a password of the recording';

export interface RecordedKeystone {
  /** URL of the server. It ends with `/v3`. */
  readonly url: string;
  readonly requests: readonly Recorded[];
  /** Returns the numbers of log-ins and of token validations. */
  counts(): { readonly logIns: number; readonly questions: number };
  /** Changes the responses for this token to those of another exchange. */
  change(name: 'sahara' | 'tenant' | 'trove', to: ExchangeName): void;
  /** Makes the service's own token invalid until the next log-in. */
  endOwnToken(): void;
  /** Sets a function that answers all later requests. */
  answerAll(answerer: Answerer): void;
}

/**
 * Starts the server. It is closed at the end of the test. Tokens are valid until `expiresAt`
 * (default: an hour from now), because the recorded ones have expired.
 */
export async function startKeystone(
  t: ExecutionContext,
  expiresAt: number = Date.now() + 3_600_000,
): Promise<RecordedKeystone> {
  const names = new Map<string, ExchangeName>(
    (['sahara', 'tenant', 'trove', 'unscoped'] as const).map((name) => [tokenOf(name), name]),
  );
  const own = exchangeOf('log-in').answer['X-Subject-Token'];
  let isOwnValid = false;
  const exchangeFor = ({ method, headers, body }: Recorded): Exchange => {
    if (method === 'POST') {
      if (!body.includes(JSON.stringify(servicePassword))) return exchangeOf('log-in-refused');
      isOwnValid = true;
      return exchangeOf('log-in');
    }
    if (!isOwnValid || headers['x-auth-token'] !== own) return exchangeOf('service-ended');
    return exchangeOf(names.get(String(headers['x-subject-token'])) ?? 'unknown');
  };
  const recorder = await startRecorder((request, response) =>
    send(response, exchangeFor(request), expiresAt),
  );
  t.teardown(() => recorder.close());
  const { requests } = recorder;
  const countOf = (method: string): number => requests.filter((it) => it.method === method).length;
  return {
    url: `${recorder.origin}/v3`,
    requests,
    counts: () => ({ logIns: countOf('POST'), questions: countOf('GET') }),
    change: (name, to) => names.set(tokenOf(name), to),
    endOwnToken: () => {
      isOwnValid = false;
    },
    answerAll: (answerer) => {
      recorder.answer = answerer;
    },
  };
}

function send(
  response: ServerResponse,
  { status, answer, body }: Exchange,
  expiresAt: number,
): void {
  const time = new Date(expiresAt).toISOString();
  response.writeHead(status, answer);
  response.end(body.replace(/"expires_at": ?"[^"]*"/, `"expires_at": "${time}"`));
}

/** Returns the section `saltbridge: bridge: keystone:` for this server. */
export function keystoneSection(url: string, password: string = servicePassword): object {
  return { url, username: 'admin', password, project: 'admin', timeout: 60 };
}
