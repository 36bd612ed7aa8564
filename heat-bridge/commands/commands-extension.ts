/** Extension of the bridge that provides commands and plans. */

import path from 'node:path';
import type { ExtensionHost, MetricFamily } from '#master';
import { describeSystemError } from '#runtime';
import type {
  BridgeContext,
  BridgeContribution,
  BridgeExtensionModule,
  CheckContext,
} from '../bridge-extension.ts';
import { loadCatalog, requireCatalog } from '../catalog/load-catalog.ts';
import { listYamlFiles } from '../catalog/yaml-files.ts';
import { figureOf } from '../figures.ts';
import type { SectionProblem } from '../options.ts';
import { createPlanApi } from '../plans/plan-api.ts';
import { PlanCatalog } from '../plans/plan-catalog.ts';
import { describePlan } from '../plans/plan-info.ts';
import { addPlanRoutes } from '../plans/plan-routes.ts';
import { planMethods } from '../plans/plan-rpc.ts';
import { PlanRunner } from '../plans/plan-runner.ts';
import { sectionProblems } from '../section-problems.ts';
import { bridgeServices } from '../services.ts';
import { createCommandApi } from './command-api.ts';
import { Catalog } from './command-catalog.ts';
import { describeCommand } from './command-info.ts';
import { addCommandRoutes } from './command-routes.ts';
import { commandMethods } from './command-rpc.ts';
import type { CommandRun } from './command-run.ts';
import { CommandRunner } from './command-runner.ts';
import { jsonDigest } from './idempotency-keys.ts';
import { LostKeys } from './lost-keys.ts';
import { createReactionCommands } from './reaction-commands.ts';
import { parseRunQuotas } from './run-quotas.ts';

/**
 * Number of hexadecimal digits in the version of the catalog that a cluster member publishes. The
 * version is the beginning of the catalog's digest.
 */
const versionDigits = 12;

/**
 * Opens commands and plans.
 * @throws BridgeError ERR_BRIDGE_OPTIONS, ERR_CATALOG
 */
async function openCommands(
  host: ExtensionHost,
  context: BridgeContext,
): Promise<BridgeContribution> {
  const { sections, service, traces, kinds } = context;
  const base = path.dirname(host.config.confFile);
  const files = (sections.catalog ?? []).map((place) => path.resolve(base, place));
  const loaded = await requireCatalog(files, context.commands, kinds);
  const catalog = new Catalog([...loaded.definitions, ...context.commands]);
  const planCatalog = new PlanCatalog([...loaded.plans, ...context.plans], catalog);
  const described = [catalog.list().map(describeCommand), planCatalog.list().map(describePlan)];
  host.shared.cluster?.announce('catalog', jsonDigest(described).slice(0, versionDigits));
  const quotas = parseRunQuotas(sections.runs);
  const onBegin = traces && ((run: CommandRun): void => traces.follow(run));
  const lostKeys = await LostKeys.open(host);
  const common = { host, service, quotas, lostKeys };
  const runner = new CommandRunner({ ...common, catalog, onBegin });
  await runner.share('commands');
  const planRunner = new PlanRunner({
    host,
    plans: planCatalog,
    commands: runner,
    service,
    quotas,
  });
  await planRunner.share();
  const api = createCommandApi(catalog, runner);
  const plans = createPlanApi(planCatalog, planRunner);
  const { secrets } = runner;
  const runners = [runner];
  host.provide(bridgeServices.commands, {
    api,
    plans,
    catalog,
    runner,
    entriesOf: loaded.entriesOf,
    createRunner: (other) => {
      const created = new CommandRunner({ ...common, catalog: other, secrets });
      runners.push(created);
      return created;
    },
  });
  return {
    commands: createReactionCommands(runner),
    pillar: secrets.pillar,
    onKeyLost: async (id, where) => {
      for (const one of runners) one.loseKey(id);
      await lostKeys.note(id, where);
    },
    rpc: { ...commandMethods(api, host), ...planMethods(plans, host) },
    metrics: () => figuresOf(runner.active, planRunner.active),
    addRoutes: (app, server) => {
      addCommandRoutes(app, server, host, api);
      addPlanRoutes(app, server, host, plans);
    },
    start: () => {
      runner.goOn();
      planRunner.goOn();
    },
    close: async () => {
      await planRunner.close();
      await runner.close();
    },
  };
}

function figuresOf(commandRuns: number, planRuns: number): readonly MetricFamily[] {
  const commandsHelp = 'Active runs of commands, including steps of plans.';
  return [
    figureOf('gauge', 'command_runs', commandsHelp, commandRuns),
    figureOf('gauge', 'plan_runs', 'Active runs of plans.', planRuns),
  ];
}

/** Returns the errors in the section `runs`, and in the catalog files. */
async function checkCommands({
  sections,
  config,
  kinds,
}: CheckContext): Promise<readonly SectionProblem[]> {
  const problems = [...sectionProblems('bridge:runs', sections.runs, parseRunQuotas)];
  const readable: string[] = [];
  for (const [index, place] of [sections.catalog ?? []].flat().entries()) {
    if (typeof place !== 'string') continue;
    const whole = path.resolve(path.dirname(config.confFile), place);
    try {
      await listYamlFiles(whole);
      readable.push(whole);
    } catch (error) {
      const problem = `cannot be read: ${describeSystemError(error) ?? whole}`;
      problems.push({ key: `saltbridge:bridge:catalog[${index}]`, problem });
    }
  }
  const { findings } = await loadCatalog(readable, [], kinds);
  const key = 'saltbridge:bridge:catalog';
  return [
    ...problems,
    ...findings.map(({ file, line, problem }) => ({ key, problem, file, line })),
  ];
}

export const commandsExtension: BridgeExtensionModule = {
  check: checkCommands,
  open: openCommands,
};
