import type { InProcessFunctionsApi } from '../api/index.ts';
import type { Audit } from '../audit/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import type { Jobs } from '../jobs/index.ts';
import { FunctionCaller } from './function-caller.ts';
import type { MasterFunction } from './master-function.ts';

export interface FunctionDeps extends ModuleDeps {
  readonly audit: Audit;
  readonly events: Events;
  readonly jobs: Jobs;
  /** Runners and wheel functions by name. Extensions add to these tables while they are opened. */
  readonly tables: {
    readonly runners: FunctionTable;
    readonly wheel: FunctionTable;
    /**
     * Functions that give advice about a Salt function that this master does not support. Each
     * returns what to use instead, or `undefined`. They are called in order, and the error message
     * contains the first advice.
     */
    readonly insteadOf: Iterable<InsteadOf>;
  };
}

type FunctionTable = ReadonlyMap<string, MasterFunction>;

/**
 * Function that returns advice for callers of an unsupported Salt function, for the error message.
 * It returns `undefined` if it has none.
 */
export type InsteadOf = (kind: 'runner' | 'wheel', fun: string) => string | undefined;

/**
 * Creates the callers of runners and of wheel functions. They serve calls from programs, users and
 * minions.
 */
export function createFunctions(deps: FunctionDeps) {
  const { config, context, audit, events, jobs, tables } = deps;
  const { fixed } = config;
  const callerOf = (kind: 'runner' | 'wheel', table: FunctionTable): FunctionCaller =>
    new FunctionCaller({
      ...context,
      table,
      kind,
      insteadOf: (fun) => {
        for (const advise of tables.insteadOf) {
          const advice = advise(kind, fun);
          if (advice !== undefined) return advice;
        }
        return undefined;
      },
      bus: events.bus,
      audit,
      cache: fixed.runnerReturns ? jobs.cache : undefined,
      masterId: fixed.id,
      log: context.log.child({ component: 'runners' }),
    });
  const runners = callerOf('runner', tables.runners);
  const wheel = callerOf('wheel', tables.wheel);
  return { runners, wheel, api: { runners: toApi(runners), wheel: toApi(wheel) } };
}

/** Returns the part of the master's interface that calls functions through this caller. */
function toApi(caller: FunctionCaller): InProcessFunctionsApi {
  return {
    run: (call) => caller.run(call),
    start: (call) => caller.start(call),
    docs: async (prefix) => caller.docs(prefix),
  };
}

/** Runners and wheel functions of a master. */
export type Functions = ReturnType<typeof createFunctions>;
