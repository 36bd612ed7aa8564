import { type Command, InvalidArgumentError } from 'commander';
import type { BegunPlan, PlanOutcome, PlanUpdate } from '../../heat-bridge/index.ts';
import { writeMarkedJson } from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import { configOption, jsonOption, logLevelOption } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';
import { escapeName } from '../output/escape.ts';
import { printJson, printLine } from '../print.ts';

/** Targets of a plan's groups, by name. */
export type GroupTargets = Readonly<Record<string, string | readonly string[]>>;

/** What every command here takes. */
interface PlanOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** What is asked of a plan, beside its name. */
export interface RunPlanOptions extends PlanOptions {
  readonly group: GroupTargets;
  readonly params?: WireValue;
  readonly key?: string;
  readonly project?: string;
  readonly service?: string;
}

/** Runs of plans that go on, below `saltbridge bridge`. */
export function addPlanCommands(bridge: Command, context: CommandContext): void {
  bridge
    .command('follow')
    .description('print what a run of a plan tells, from its beginning')
    .argument('<id>')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (id: string, options: PlanOptions) => {
      const api = await context.openExtension(options.configDir, 'bridge');
      await printAll(api.stream('followPlan', { id }), options, context);
    });
  bridge
    .command('cancel')
    .description('end a run of a plan, take back what is done, and print its outcome')
    .argument('<id>')
    .option('--no-undo', 'leave what is done as it is')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (id: string, { configDir, json, undo }: PlanOptions & { undo: boolean }) => {
      const api = await context.openExtension(configDir, 'bridge');
      const outcome = await api.call<PlanOutcome>('cancelPlan', { id, undo });
      if (json) return printJson(context.stdout, outcome);
      await printLine(context.stdout, `Run ${outcome.id} ${outcome.status}.`);
    });
}

/** Calls a plan, and prints what it tells. */
export async function runPlan(
  plan: string,
  { group: groups, params, key, project, service, ...options }: RunPlanOptions,
  context: CommandContext,
): Promise<void> {
  const api = await context.openExtension(options.configDir, 'bridge');
  const request = {
    plan,
    groups,
    ...(params === undefined ? {} : { params }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(project === undefined ? {} : { project }),
    ...(service === undefined ? {} : { service }),
  };
  await printAll(api.stream('runPlan', request), options, context);
}

/** `NAME=TARGET`: a glob on ids, or several ids with commas between them. */
export function parseGroup(text: string, before: GroupTargets = {}): GroupTargets {
  const [name = '', target = '', ...more] = text.split('=');
  if (name === '' || target === '' || more.length > 0) {
    throw new InvalidArgumentError('expected NAME=TARGET.');
  }
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError('the group is given twice.');
  return { ...before, [name]: target.includes(',') ? target.split(',') : target };
}

async function printAll(
  updates: AsyncIterable<BegunPlan | PlanUpdate>,
  { json }: Pick<PlanOptions, 'json'>,
  context: CommandContext,
): Promise<void> {
  for await (const update of updates) {
    if (update.type === 'outcome' && update.outcome.status !== 'succeeded') {
      context.setExitCode(exitCodes.failure);
    }
    // Everything in it came over the socket, as Salt's values.
    if (json) {
      const line = writeMarkedJson(update);
      await printLine(context.stdout, line);
    } else await printUpdate(update, context);
  }
}

async function printUpdate(update: BegunPlan | PlanUpdate, context: CommandContext): Promise<void> {
  switch (update.type) {
    case 'begun': {
      const how = update.isRepeated ? 'is a run that was there before' : 'begins';
      return printLine(context.stderr, `Run ${update.id} ${how}.`);
    }
    case 'step': {
      const { step, kind, state, minions, steps, reason } = update;
      const counts = `${minions.succeeded} of ${minions.all} minions; ${steps.ended} of ${steps.all} steps have ended`;
      const why = reason === undefined ? '' : ` (${reason})`;
      return printLine(
        context.stderr,
        escapeName(`${titleOf(step, kind)} ${state}${why}: ${counts}`),
      );
    }
    case 'result': {
      const { step, kind, result } = update;
      const { minion, state, return: value, reason } = result;
      const why = reason === undefined ? '' : ` (${reason})`;
      const text = value === undefined ? '' : ` ${writeMarkedJson(value)}`;
      const line = `${titleOf(step, kind)} ${minion}: ${state}${why}${text}`;
      return printLine(context.stdout, escapeName(line));
    }
    case 'outcome': {
      const { id, status, undone } = update.outcome;
      const stuck = undone.filter((it) => it.status !== 'succeeded').map(({ step }) => step);
      const rest = stuck.length === 0 ? '' : ` Not taken back: ${stuck.join(', ')}.`;
      return printLine(context.stderr, `Run ${id} ${status}.${rest}`);
    }
  }
}

function titleOf(step: string, kind: 'do' | 'undo'): string {
  return kind === 'do' ? step : `undo of ${step}`;
}
