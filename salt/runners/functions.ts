/** Opens runners and wheel functions, for programs and for minions. */

import type { LiveConfig } from '#config';
import type { InProcessApi, InProcessFunctionsApi } from '#master/api/index.ts';
import type { Audit } from '#master/audit/index.ts';
import type { MasterContext } from '#master/context/index.ts';
import type { Events } from '#master/events/index.ts';
import type { Jobs } from '#master/jobs/index.ts';
import type { Files } from '../files/index.ts';
import { type Orchestrator, openOrchestrator } from '../orchestrate/orchestrator.ts';
import { type MinionData, Renderer } from '../pillar/index.ts';
import { askRunners } from './ask-runners.ts';
import { FunctionCaller, type FunctionCallerOptions, type FunctionTable } from './caller.ts';
import { configRunner } from './config-runner.ts';
import { httpRunner } from './http-runner.ts';
import { insteadOfRunner, insteadOfWheel } from './not-served.ts';
import { queueRunner } from './queue-runner.ts';
import { ReactorEntries, reactorRunner } from './reactor-runner.ts';
import { docRunner, eventRunner, stateRunner, testRunner } from './runners.ts';
import { sdbRunner } from './sdb-runner.ts';

export interface FunctionDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly audit: Audit;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly tables: FunctionTables;
}

/** Functions of other modules, by their names. */
interface FunctionTables {
  readonly runners: FunctionTable;
  readonly wheel: FunctionTable;
  /** What the `state` runner runs. */
  readonly orchestrator: Orchestrator;
}

/** Functions of the master. */
export interface Functions {
  readonly runners: FunctionCaller;
  readonly wheel: FunctionCaller;
  /** The option `reactor`, as the runner of that name has changed it. */
  readonly reactors: ReactorEntries;
  readonly api: Pick<InProcessApi, 'runners' | 'wheel'>;
}

export function createFunctions(deps: FunctionDeps): Functions {
  const { config, context, audit, events, jobs, tables } = deps;
  const { fixed } = config;
  const { bus } = events;
  const { orchestrator } = tables;
  const common: Omit<FunctionCallerOptions, 'table' | 'kind' | 'insteadOf'> = {
    bus,
    audit,
    nextJid: context.nextJid,
    cache: fixed.runnerReturns ? jobs.cache : undefined,
    masterId: fixed.id,
    closing: context.closing,
    now: context.now,
    log: context.log.child({ component: 'runners' }),
  };
  const reactors = new ReactorEntries(config);
  const reader = context.closers.add(new Renderer(), (it) => it.close());
  const wheel = new FunctionCaller({
    ...common,
    table: tables.wheel,
    kind: 'wheel',
    insteadOf: insteadOfWheel,
  });
  const runners: FunctionCaller = new FunctionCaller({
    ...common,
    table: {
      ...tables.runners,
      ...eventRunner({ bus }),
      ...stateRunner({ orchestrator }),
      ...docRunner({
        jobs: jobs.api,
        docs: {
          runner: (prefix) => runners.docs(prefix),
          wheel: (prefix) => wheel.docs(prefix),
        },
      }),
      ...testRunner(),
      ...askRunners(jobs),
      ...configRunner({ config }),
      ...sdbRunner({ config, reader, log: common.log }),
      ...httpRunner({ config, reader }),
      ...reactorRunner(reactors),
      ...queueRunner({
        store: context.ownStore,
        bus,
        run: async (fun, arg, kwarg, { user }) => {
          await runners.run({ fun, arg, kwarg, user });
        },
      }),
    },
    kind: 'runner',
    insteadOf: insteadOfRunner,
  });
  const { api: eventsApi } = events;
  orchestrator.actBy({
    ...{ jobs: jobs.api, runners, wheel, bus },
    ...{ events: eventsApi, now: context.now },
  });
  return {
    runners,
    wheel,
    reactors,
    api: { runners: toFunctionsApi(runners), wheel: toFunctionsApi(wheel) },
  };
}

/** The callers as the interface gives them. */
function toFunctionsApi(caller: FunctionCaller): InProcessFunctionsApi {
  return {
    run: (call) => caller.run(call),
    start: (call) => caller.start(call),
    docs: async (prefix) => caller.docs(prefix),
  };
}

export interface OrchestratorDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly data: MinionData;
  readonly files: Files;
}

/** Orchestrations of the SLS of the file server; closed with the master. */
export function createOrchestrator({
  config,
  context,
  data,
  files,
}: OrchestratorDeps): Orchestrator {
  const log = context.log.child({ component: 'runners' });
  return openOrchestrator({ config, context, pillar: data.pillar, fileServer: files.server, log });
}
