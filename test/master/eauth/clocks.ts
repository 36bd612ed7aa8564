/** Log-ins with a store in memory, clocks that the test sets, and delays that are only recorded. */
import type { ExecutionContext } from 'ava';
import { LiveConfig, type MasterOptions, resolveMasterConfig } from '#config';
import { AuditBursts, createSilentLogger } from '#master';
import { noAudit } from '#master/audit/audit-record.ts';
import { LoginAudit } from '#master/audit/login-audit.ts';
import type { LoginBackend, Standing } from '#master/users/backend.ts';
import type { Backends } from '#master/users/backends.ts';
import { Logins, type LoginsOptions } from '#master/users/logins.ts';
import { TokenTable } from '#master/users/tokens.ts';
import { createMemoryStore, type Store } from '#store';

/** Time at the start, in milliseconds since 1970. */
export const startAt = 1_700_000_000_000;

export interface Bench {
  readonly logins: Logins;
  readonly store: Store;
  readonly clock: { now: number; monotonic: number };
  /** Recorded delays in milliseconds. */
  readonly delays: number[];
  /** Creates log-ins with the same store, as after a restart. */
  restart(): Promise<Logins>;
  /** Advances both clocks. */
  pass(milliseconds: number): void;
}

export interface BenchOptions {
  readonly config?: Partial<MasterOptions>;
  readonly backends?: readonly LoginBackend[];
  readonly rightsOf?: LoginsOptions['rightsOf'];
  readonly delay?: LoginsOptions['clocks']['delay'];
}

export async function openBench(t: ExecutionContext, options: BenchOptions = {}): Promise<Bench> {
  const clock = { now: startAt, monotonic: 0 };
  const store = createMemoryStore({ now: () => clock.now });
  const delays: number[] = [];
  const backends: Backends | undefined =
    options.backends && new Map(options.backends.map((it) => [it.name, it]));
  const open = async (): Promise<Logins> => {
    const clocks = {
      now: () => clock.now,
      monotonic: () => clock.monotonic,
      delay: options.delay ?? (async (milliseconds: number) => void delays.push(milliseconds)),
    };
    const logins = new Logins({
      clocks,
      config: new LiveConfig(resolveMasterConfig(options.config)),
      tokens: await TokenTable.open(store, clocks),
      rightsOf: options.rightsOf ?? (() => []),
      audit: new LoginAudit(noAudit, new AuditBursts({ audit: noAudit, now: clocks.now })),
      log: createSilentLogger(),
      ...(backends === undefined ? {} : { backends }),
    });
    t.teardown(() => logins.close());
    return logins;
  };
  return {
    logins: await open(),
    store,
    clock,
    delays,
    restart: open,
    pass: (milliseconds) => {
      clock.now += milliseconds;
      clock.monotonic += milliseconds;
    },
  };
}

/**
 * Returns a back end with one password for all users. The test can change whether it still accepts
 * them.
 */
export function passwordBackend(
  password: string,
  standing: { current: Standing | Error } = { current: { state: 'valid', groups: ['staff'] } },
): LoginBackend {
  return {
    name: 'file',
    authenticate: async (given) =>
      given.password === password ? { user: given.username, groups: ['staff'] } : undefined,
    standingOf: async () => {
      if (standing.current instanceof Error) throw standing.current;
      return standing.current;
    },
  };
}
