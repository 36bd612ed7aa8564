import { type Command, Option } from 'commander';
import type { RunRequest } from '../../master/index.ts';
import { parseArguments } from '../arguments.ts';
import { configOption, logLevelOption, parseSeconds } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { JobFollower } from '../job-follower.ts';
import { type Colors, noColors, terminalColors } from '../output/colors.ts';
import type { Outputter } from '../output/returns.ts';

interface SaltOptions {
  readonly configDir: string;
  readonly list?: boolean;
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
  program
    .command('salt')
    .description('run a function on minions')
    .argument('<tgt>', 'which minions: a glob on their ids')
    .argument('<fun>', 'the function, for instance test.ping')
    .argument('[args...]', 'its arguments: YAML values, or name=value')
    .addOption(configOption())
    .option('-L, --list', 'tgt is a list of ids, separated by commas or spaces')
    .option('-t, --timeout <seconds>', 'time without news before asking', parseSeconds)
    .option('-g, --gather-job-timeout <seconds>', 'time for the answer to that', parseSeconds)
    .addOption(new Option('--out <outputter>', 'how to print').choices(outputters))
    .addOption(new Option('--output <outputter>').choices(outputters).hideHelp())
    .option('-s, --static', 'print all returns at once, at the end')
    .option('--no-color', 'without colours')
    .option('--force-color', 'with colours, also where there is no terminal')
    .addOption(new Option('--no-parse <names>', 'keywords whose value is text').default('', 'none'))
    .addOption(logLevelOption())
    .action(async (tgt: string, fun: string, args: string[], options: SaltOptions) => {
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

function toRequest(tgt: string, fun: string, args: string[], options: SaltOptions): RunRequest {
  const { list, timeout, gatherJobTimeout, parse } = options;
  return {
    ...(list ? { tgt: splitList(tgt), tgtType: 'list' } : { tgt, tgtType: 'glob' }),
    fun,
    ...parseArguments(args, parse.split(',')),
    ...(timeout === undefined ? {} : { timeout }),
    ...(gatherJobTimeout === undefined ? {} : { gatherJobTimeout }),
  };
}

/** [salt utils/parsers.py SaltCMDOptionParser] */
function splitList(tgt: string): string[] {
  return tgt.includes(',') ? tgt.replaceAll(' ', '').split(',') : tgt.trim().split(/\s+/);
}

function chooseColors(options: SaltOptions, isTerminal: boolean): Colors {
  if (options.forceColor) return terminalColors;
  return options.color && isTerminal ? terminalColors : noColors;
}
