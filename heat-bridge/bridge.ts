/** Creates the bridge from its parts, as an extension of a master. */

import path from 'node:path';
import type { DataApi } from '#guests/data-spaces/data-api.ts';
import { openDeployments } from '#guests/deployments/open-deployments.ts';
import { addStackRoutes } from '#guests/deployments/stack-routes.ts';
import type { StacksApi } from '#guests/deployments/stacks-api.ts';
import { MuranoCatalog } from '#guests/murano/murano-catalog.ts';
import { addMuranoRoutes } from '#guests/murano/murano-routes.ts';
import { openMurano } from '#guests/murano/open-murano.ts';
import { openGuests } from '#guests/open-guests.ts';
import type { ExtensionHost, MasterExtension, OpenExtension } from '#master';
import { type BridgeModule, combineModules, figureOf } from './bridge-module.ts';
import { requireCatalog } from './catalog/load-catalog.ts';
import type { Parameters } from './commands/parameters.ts';
import { type CommandApi, createCommandApi } from './commands/command-api.ts';
import { Catalog } from './commands/command-catalog.ts';
import type { CommandDefinition, TypedCommand } from './commands/command-definition.ts';
import { type CommandInfo, describeCommand } from './commands/command-info.ts';
import type { CommandCaller, CommandHandle, CommandRequest } from './commands/command-request.ts';
import { addCommandRoutes } from './commands/command-routes.ts';
import { commandMethods } from './commands/command-rpc.ts';
import type { CommandRun } from './commands/command-run.ts';
import { CommandRunner } from './commands/command-runner.ts';
import { jsonDigest } from './commands/idempotency-keys.ts';
import { createReactionCommands } from './commands/reaction-commands.ts';
import { parseRunQuotas, type RunQuotas } from './commands/run-quotas.ts';
import type { EnrollApi } from './enroll/enrolment-service.ts';
import { openEnrolment, parseEnrollOptions } from './enroll/open-enrolment.ts';
import { BridgeError } from './errors.ts';
import { type BridgePlugin, createBridgePlugin } from './http/bridge-plugin.ts';
import { withKeystoneTokens } from './keystone.ts';
import { parseSections } from './options.ts';
import { createPlanApi, type PlanApi } from './plans/plan-api.ts';
import { PlanCatalog } from './plans/plan-catalog.ts';
import type { PlanDefinition, TypedPlan } from './plans/plan-definition.ts';
import { describePlan, type PlanInfo } from './plans/plan-info.ts';
import type { PlanHandle, PlanRequest } from './plans/plan-request.ts';
import { addPlanRoutes } from './plans/plan-routes.ts';
import { planMethods } from './plans/plan-rpc.ts';
import { PlanRunner } from './plans/plan-runner.ts';
import { openSignals } from './signals/open-signals.ts';
import { addSignalRoutes } from './signals/signal-routes.ts';
import type { HandlesApi, OutboxApi, SignalsApi } from './signals/signals-api.ts';
import { Traces } from './tracing.ts';

// Plans.

interface PlanModuleOptions {
  readonly plans: PlanCatalog;
  readonly commands: CommandRunner;
  readonly service: string;
  readonly quotas: RunQuotas;
}

async function openPlans(
  host: ExtensionHost,
  { plans, commands, service, quotas }: PlanModuleOptions,
): Promise<BridgeModule<PlanApi>> {
  const runner = new PlanRunner({ host, plans, commands, service, quotas });
  await runner.share();
  const api = createPlanApi(plans, runner);
  return {
    api,
    metrics: () => [figureOf('gauge', 'plan_runs', 'Runs of plans that go on.', runner.active)],
    rpc: planMethods(api, host),
    routes: (app, doors) => addPlanRoutes(app, doors, { api, host }),
    start: () => runner.goOn(),
    close: () => runner.close(),
  };
}

// Commands.

interface CommandModuleOptions {
  readonly catalog: Catalog;
  readonly service: string;
  readonly quotas: RunQuotas;
  readonly traces: Traces | undefined;
}

/** The part, and what runs the steps of plans. */
interface CommandModule extends BridgeModule<CommandApi> {
  readonly runner: CommandRunner;
}

async function openCommands(
  host: ExtensionHost,
  { catalog, service, quotas, traces }: CommandModuleOptions,
): Promise<CommandModule> {
  const onBegin = traces && ((run: CommandRun): void => traces.follow(run));
  const runner = new CommandRunner({ host, catalog, service, quotas, onBegin });
  await runner.share('commands');
  const api = createCommandApi(catalog, runner);
  return {
    api,
    runner,
    commands: createReactionCommands(runner),
    metrics: () => [
      figureOf(
        'gauge',
        'command_runs',
        'Runs of commands that go on, steps of plans included.',
        runner.active,
      ),
    ],
    pillar: runner.secrets.pillar,
    rpc: commandMethods(api, host),
    routes: (app, doors) => addCommandRoutes(app, doors, { api, host }),
    start: () => runner.goOn(),
    close: () => runner.close(),
  };
}

/** Commands by name, as `saltbridge bridge types` writes them. */
export interface CommandTypes {
  readonly [name: string]: { readonly params: object };
}

/** The types of commands that a program defines by {@link defineCommand}. */
export type CommandsOf<D extends readonly CommandDefinition[]> = {
  readonly [C in D[number] as C['name']]: {
    readonly params: C extends TypedCommand<string, infer P> ? P & object : Parameters;
  };
};

/** Commands that nothing is known of beforehand. */
export interface AnyCommands {
  readonly [name: string]: { readonly params: Parameters };
}

/** Plans by name, as `saltbridge bridge types` writes them. */
export interface PlanTypes {
  readonly [name: string]: { readonly params: object; readonly groups: string };
}

/** The types of plans that a program defines by {@link definePlan}. */
export type PlansOf<L extends readonly PlanDefinition[]> = {
  readonly [P in L[number] as P['name']]: P extends TypedPlan<string, infer A, infer G>
    ? { readonly params: A & object; readonly groups: G }
    : { readonly params: Parameters; readonly groups: string };
};

/** Plans that nothing is known of beforehand. */
export interface AnyPlans {
  readonly [name: string]: { readonly params: Parameters; readonly groups: string };
}

/** What a bridge may be told by its program; the rest stands in the master's configuration. */
export interface BridgeOptions<
  D extends readonly CommandDefinition[],
  L extends readonly PlanDefinition[],
> {
  /** Beside those of `saltbridge: bridge: catalog:`. Default: none. */
  readonly commands?: D;
  /** Beside those of the catalog. Default: none. */
  readonly plans?: L;
  /** The service that calls where a request names no caller. Default `bridge`. */
  readonly service?: string;
}

/** The bridge of one master: give it to `createMaster` as one of its `extensions`. */
export interface Bridge<C extends CommandTypes = AnyCommands, P extends PlanTypes = AnyPlans>
  extends MasterExtension {
  /** The catalog, as callers see it. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly commands: {
    list(): readonly CommandInfo[];
    /** @throws BridgeError ERR_COMMAND_UNKNOWN */
    show(name: string): CommandInfo;
  };
  /**
   * Calls a named command. It was permitted, and its key is durable, when this resolves.
   * @throws BridgeError ERR_COMMAND_UNKNOWN, ERR_COMMAND_PARAMETERS, ERR_COMMAND_TARGET,
   * ERR_COMMAND_DENIED, ERR_COMMAND_BUSY, ERR_COMMAND_KEY, ERR_BRIDGE_NOT_OPEN;
   * AuthenticationError ERR_EAUTH_TOKEN; MasterError ERR_BAD_TGT. Nothing was published then.
   */
  run<N extends keyof C & string>(
    name: N,
    request: CommandRequest<C[N]['params']>,
  ): Promise<CommandHandle>;
  /**
   * A run that goes on, or was over not long ago.
   * @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's
   */
  find(id: string, caller: CommandCaller): Promise<CommandHandle>;
  /** The plans of the catalog, as callers see them. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly plans: {
    list(): readonly PlanInfo[];
    /** @throws BridgeError ERR_PLAN_UNKNOWN */
    show(name: string): PlanInfo;
    /**
     * A run that goes on, or was over not long ago.
     * @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's
     */
    find(id: string, caller: CommandCaller): Promise<PlanHandle>;
  };
  /**
   * Runs several commands as one. When this resolves, all of them that do not depend on a result
   * were permitted, and its key is durable.
   * @throws BridgeError ERR_PLAN_UNKNOWN, ERR_PLAN_GROUPS, ERR_COMMAND_PARAMETERS,
   * ERR_COMMAND_DENIED, ERR_COMMAND_KEY, ERR_BRIDGE_NOT_OPEN; AuthenticationError
   * ERR_EAUTH_TOKEN; MasterError ERR_BAD_TGT. Nothing was published then.
   */
  plan<N extends keyof P & string>(
    name: N,
    request: PlanRequest<P[N]['params'], P[N]['groups']>,
  ): Promise<PlanHandle>;
  /** Its routes, for an HTTP server such as `createSaltApi` makes. */
  readonly http: BridgePlugin;
  /** Machines on their way to being minions. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly enroll: EnrollApi;
  /** Where signals go. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly handles: HandlesApi;
  /** Signals on their way. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly outbox: OutboxApi;
  /** Stacks whose software deployments run. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly stacks: StacksApi;
  /** Values that the minions of a stack write for each other. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly data: DataApi;
}

/** The parts of a bridge whose master runs. */
interface OpenBridge {
  readonly commands: CommandApi;
  readonly plans: PlanApi;
  readonly enroll: EnrollApi;
  readonly signals: SignalsApi;
  readonly stacks: StacksApi;
  readonly data: DataApi;
  readonly parts: readonly BridgeModule<unknown>[];
}

/**
 * Makes it. Nothing is opened before its master is started.
 * @typeParam D - by default the types of `commands`; those of files by `saltbridge bridge types`
 * @typeParam L - by default the types of `plans`; those of files as above
 */
export function createBridge<
  const D extends readonly CommandDefinition[] = [],
  const L extends readonly PlanDefinition[] = [],
>(
  options: BridgeOptions<D, L> = {},
): Bridge<
  D extends readonly [] ? AnyCommands : CommandsOf<D>,
  L extends readonly [] ? AnyPlans : PlansOf<L>
> {
  return new BridgeOfMaster(options);
}

/** Options, whatever they are. */
type AnyBridgeOptions = BridgeOptions<readonly CommandDefinition[], readonly PlanDefinition[]>;

class BridgeOfMaster implements Bridge<CommandTypes, PlanTypes> {
  readonly name = 'bridge';
  readonly http: BridgePlugin = createBridgePlugin(() => this.#opened().parts);
  readonly #options: AnyBridgeOptions;
  #open: OpenBridge | undefined;

  constructor(options: AnyBridgeOptions) {
    this.#options = options;
  }

  get commands(): CommandApi {
    return this.#opened().commands;
  }

  get plans(): PlanApi {
    return this.#opened().plans;
  }

  get enroll(): EnrollApi {
    return this.#opened().enroll;
  }

  get handles(): HandlesApi {
    return this.#opened().signals.handles;
  }

  get outbox(): OutboxApi {
    return this.#opened().signals.outbox;
  }

  get stacks(): StacksApi {
    return this.#opened().stacks;
  }

  get data(): DataApi {
    return this.#opened().data;
  }

  async run(name: string, request: CommandRequest<object>): Promise<CommandHandle> {
    // Whatever it says it is, it is looked at.
    return this.#opened().commands.run(name, request as CommandRequest);
  }

  async find(id: string, caller: CommandCaller): Promise<CommandHandle> {
    return this.#opened().commands.find(id, caller);
  }

  async plan(name: string, request: PlanRequest<object>): Promise<PlanHandle> {
    // As above.
    return this.#opened().plans.run(name, request as PlanRequest);
  }

  async open(host: ExtensionHost): Promise<OpenExtension> {
    if (this.#open !== undefined) {
      throw new BridgeError('ERR_BRIDGE_NOT_OPEN', 'a bridge is of one master; make another one');
    }
    const open = await openModules(host, this.#options);
    this.#open = open;
    const extension = combineModules(open.parts);
    return {
      ...extension,
      close: async () => {
        this.#open = undefined;
        await extension.close?.();
      },
    };
  }

  #opened(): OpenBridge {
    if (this.#open !== undefined) return this.#open;
    throw new BridgeError('ERR_BRIDGE_NOT_OPEN', "start the bridge's master first");
  }
}

/** Of a digest: enough to tell two catalogs apart. */
const versionDigits = 12;

/** Each part with its section of the configuration. @throws BridgeError */
async function openModules(
  master: ExtensionHost,
  { commands: definitions = [], plans: planned = [], service = 'bridge' }: AnyBridgeOptions,
): Promise<OpenBridge> {
  const sections = parseSections(master.config.bridge);
  const host = withKeystoneTokens(master, sections.keystone);
  const { catalog: places = [] } = sections;
  // Relative ones are told from the configuration's directory.
  const base = path.dirname(host.config.confFile);
  const files = places.map((place) => path.resolve(base, place));
  const loaded = await requireCatalog(files, definitions);
  const catalog = new Catalog([...loaded.definitions, ...definitions]);
  const book = new PlanCatalog([...loaded.plans, ...planned], catalog);
  const described = [catalog.list().map(describeCommand), book.list().map(describePlan)];
  host.shared.cluster?.announce('catalog', jsonDigest(described).slice(0, versionDigits));
  const quotas = parseRunQuotas(sections.runs);
  const traces = await Traces.open();
  const commands = await openCommands(host, { catalog, service, quotas, traces });
  const plans = await openPlans(host, { plans: book, commands: commands.runner, service, quotas });
  const enrollOptions = parseEnrollOptions(sections.enroll, host.config);
  const enroll = await openEnrolment(host, enrollOptions);
  const signals = await openSignals(host, sections.handles, {
    projectOf: enroll.projectOf,
    traces,
  });
  const deployments = await openDeployments(host, {
    section: sections.deployments,
    catalog,
    code: loaded.code,
    commands: commands.runner,
    service,
    quotas,
    enroll,
    signals,
  });
  const murano = openMurano(host, {
    section: sections.murano,
    catalog: new MuranoCatalog(loaded.entryPoints, catalog),
    commands: commands.runner,
  });
  // protection: retired-grants
  enroll.api.onRetire((id) => signals.dismiss(id));
  const guests = await openGuests(host, {
    section: sections.guests,
    others: { keystone: sections.keystone, masters: enrollOptions.masters },
    enroll,
    signals,
  });
  enroll.giveTokens((enrolment) => guests.tokenOf(enrolment));
  // protection: retired-servers
  enroll.api.onRetire((id) => deployments.dismiss(id));
  // protection: retired-roles
  enroll.api.onRetire((id) => guests.dismiss(id));
  const routes: BridgeModule<unknown>['routes'] = (app, doors) =>
    addSignalRoutes(app, doors, host, signals);
  const stackRoutes: BridgeModule<unknown>['routes'] = (app, doors) =>
    addStackRoutes(app, doors, host, deployments);
  const muranoRoutes: BridgeModule<unknown>['routes'] = (app, doors) =>
    addMuranoRoutes(app, doors, host, murano);
  return {
    commands: commands.api,
    plans: plans.api,
    enroll: enroll.api,
    signals: signals.api,
    stacks: deployments.api,
    data: guests.api,
    parts: [
      commands,
      plans,
      enroll,
      { ...signals, routes },
      { ...deployments, routes: stackRoutes },
      { api: murano, routes: muranoRoutes, close: async () => {} },
      guests,
    ],
  };
}
