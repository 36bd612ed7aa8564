import type { LiveConfig } from '#config';
import type { InProcessApi, InProcessFunctionsApi } from '../api/index.ts';
import type { Audit } from '../audit/index.ts';
import type { MasterContext } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import type { Jobs } from '../jobs/index.ts';
import { FunctionCaller, type FunctionCallerOptions } from './function-caller.ts';
import type { MasterFunction } from './master-function.ts';

export interface FunctionDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly audit: Audit;
  readonly events: Events;
  readonly jobs: Jobs;
  /** Runners and wheel functions by name. Extensions fill the tables while they are opened. */
  readonly tables: {
    readonly runners: ReadonlyMap<string, MasterFunction>;
    readonly wheel: ReadonlyMap<string, MasterFunction>;
  };
  /** Advice for functions that are not served. */
  readonly instead: () => Iterable<InsteadOf>;
}

/** Returns what to use in place of a function of Salt's that is not served, or `undefined`. */
export type InsteadOf = (kind: 'runner' | 'wheel', fun: string) => string | undefined;

/** Functions of the master. */
export interface Functions {
  readonly runners: FunctionCaller;
  readonly wheel: FunctionCaller;
  readonly api: Pick<InProcessApi, 'runners' | 'wheel'>;
}

/** Creates the callers of runners and wheel functions, for programs, users and minions. */
export function createFunctions(deps: FunctionDeps): Functions {
  const { config, context, audit, events, jobs, tables, instead } = deps;
  const { fixed } = config;
  const common: Omit<FunctionCallerOptions, 'table' | 'kind' | 'insteadOf'> = {
    bus: events.bus,
    audit,
    nextJid: context.nextJid,
    cache: fixed.runnerReturns ? jobs.cache : undefined,
    masterId: fixed.id,
    closing: context.closing,
    now: context.now,
    log: context.log.child({ component: 'runners' }),
  };
  const insteadOf = (kind: 'runner' | 'wheel') => (fun: string) => {
    for (const advise of instead()) {
      const advice = advise(kind, fun);
      if (advice !== undefined) return advice;
    }
    return undefined;
  };
  const runners = new FunctionCaller({
    ...common,
    table: tables.runners,
    kind: 'runner',
    insteadOf: insteadOf('runner'),
  });
  const wheel = new FunctionCaller({
    ...common,
    table: tables.wheel,
    kind: 'wheel',
    insteadOf: insteadOf('wheel'),
  });
  return {
    runners,
    wheel,
    api: { runners: toFunctionsApi(runners), wheel: toFunctionsApi(wheel) },
  };
}

/** The caller as the master's interface has it. */
function toFunctionsApi(caller: FunctionCaller): InProcessFunctionsApi {
  return {
    run: (call) => caller.run(call),
    start: (call) => caller.start(call),
    docs: async (prefix) => caller.docs(prefix),
  };
}
