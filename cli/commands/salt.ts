import { type Command, Option } from 'commander';
import type { RunRequest } from '../../master/index.ts';
import { parseArguments } from '../arguments.ts';
import { configOption, logLevelOption, parseSeconds } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { CommandError } from '../errors.ts';
import { exitCodes } from '../exit-codes.ts';
import { JobFollower } from '../job-follower.ts';
import { type Colors, noColors, terminalColors } from '../output/colors.ts';
import { brokenTarget, formatPlan } from '../output/plan.ts';
import type { Outputter } from '../output/returns.ts';
import { printJson, printLine } from '../print.ts';
import { addTargetOptions, type TargetOptions, toTarget } from '../target-options.ts';

interface SaltOptions extends TargetOptions {
  readonly configDir: string;
  readonly plan?: boolean;
  readonly timeout?: number;
  readonly gatherJobTimeout?: number;
  readonly out?: Outputter;
  /** Salt's other name for it. */
  readonly output?: Outputter;
  readonly static?: boolean;
  readonly color: boolean;
  readonly forceColor?: boolean;
  /** Names, comma separated; commander's name for `--no-parse`. */
  readonly parse: string;
}

const outputters: readonly Outputter[] = ['nested', 'json'];

/** `saltbridge salt`: takes the flags of Salt's own command and prints what it prints. */
export function addSaltCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('salt')
    .description('run a function on minions')
    .argument('<tgt>', 'which minions: a glob on their ids, or as one of the options says')
    .argument('[fun]', 'the function, for instance test.ping; needed but for --plan')
    .argument('[args...]', 'its arguments: YAML values, or name=value')
    .addOption(configOption());
  addTargetOptions(command)
    .option('--plan', 'run nothing: print who the target means, and why')
    .option('-t, --timeout <seconds>', 'time without news before asking', parseSeconds)
    .option('-g, --gather-job-timeout <seconds>', 'time for the answer to that', parseSeconds)
    .addOption(new Option('--out <outputter>', 'how to print').choices(outputters))
    .addOption(new Option('--output <outputter>').choices(outputters).hideHelp())
    .option('-s, --static', 'print all returns at once, at the end')
    .option('--no-color', 'without colours')
    .option('--force-color', 'with colours, also where there is no terminal')
    .addOption(new Option('--no-parse <names>', 'keywords whose value is text').default('', 'none'))
    .addOption(logLevelOption())
    .action(async (tgt: string, fun: string | undefined, args: string[], options: SaltOptions) => {
      if (options.plan) return showPlan(context, tgt, options);
      if (fun === undefined) throw new CommandError('ERR_ARGS', 'the function is missing');
      const api = await context.openApi(options.configDir);
      const follower = new JobFollower(context, {
        isStatic: options.static === true,
        outputter: options.out ?? options.output,
        colors: chooseColors(options, context.stdout.isTTY === true),
      });
      const request = toRequest(tgt, fun, args, options);
      context.setExitCode(await follower.follow(api.jobs, request, context.interruption()));
    });
}

async function showPlan(context: CommandContext, tgt: string, options: SaltOptions): Promise<void> {
  const api = await context.openApi(options.configDir);
  const plan = await api.jobs.plan(toTarget(tgt, options));
  if ((options.out ?? options.output) === 'json') await printJson(context.stdout, plan);
  else if (plan.minions.length > 0) await printLine(context.stdout, formatPlan(plan));
  if (plan.problem !== undefined) await printLine(context.stderr, brokenTarget(plan.problem));
  if (plan.minions.some(({ reason }) => reason !== 'missing')) return;
  await printLine(context.stderr, 'No minions matched the target.');
  context.setExitCode(exitCodes.noReturn);
}

function toRequest(tgt: string, fun: string, args: string[], options: SaltOptions): RunRequest {
  const { timeout, gatherJobTimeout, parse } = options;
  return {
    ...toTarget(tgt, options),
    fun,
    ...parseArguments(args, parse.split(',')),
    ...(timeout === undefined ? {} : { timeout }),
    ...(gatherJobTimeout === undefined ? {} : { gatherJobTimeout }),
  };
}

function chooseColors(options: SaltOptions, isTerminal: boolean): Colors {
  if (options.forceColor) return terminalColors;
  return options.color && isTerminal ? terminalColors : noColors;
}
