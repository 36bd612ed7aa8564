/** The options of Salt's own `salt` command [salt utils/parsers.py]. */
import { type Command, Option } from 'commander';
import { configOption, logLevelOption, parseCount, parseSeconds } from './common-options.ts';
import { addLoginOptions, type LoginOptions } from './login-options.ts';
import { addOutputOptions, type OutputCommandOptions } from './output-options.ts';
import type { SaltRequestOptions } from './salt-request.ts';
import { addTargetOptions } from './target-options.ts';

/** As commander names them. */
export interface SaltOptions extends SaltRequestOptions, OutputCommandOptions, LoginOptions {
  readonly configDir: string;
  readonly static?: boolean;
  readonly async?: boolean;
  readonly batch?: string;
  /** Salt's other name for it. */
  readonly batchSize?: string;
  readonly batchWait?: number;
  readonly batchSafeLimit?: number;
  readonly batchSafeSize: string;
  readonly plan?: boolean;
  readonly failhard?: boolean;
  readonly startEvent?: boolean;
  readonly doc?: boolean;
  readonly documentation?: boolean;
  readonly verbose?: boolean;
  readonly showJid?: boolean;
  readonly hideTimeout?: boolean;
  readonly summary?: boolean;
}

/** Adds them all, in the order in which they are explained. */
export function addSaltOptions(command: Command): void {
  command.addOption(configOption());
  addTargetOptions(command)
    .option('--plan', 'run nothing: print who the target means, and why')
    .option('-t, --timeout <seconds>', 'time without news before asking', parseSeconds)
    .option('-g, --gather-job-timeout <seconds>', 'time for the answer to that', parseSeconds)
    .option('--async', 'do not wait; print the jid')
    .option('-b, --batch <n>', 'run on so many minions at a time, or on such a part: 25%')
    .addOption(new Option('--batch-size <n>').hideHelp())
    .option('--batch-wait <seconds>', 'time between a minion and the next', parseSeconds)
    .addOption(
      new Option('--batch-safe-limit <n>', 'a batch, if there are so many').argParser(parseCount),
    )
    .addOption(new Option('--batch-safe-size <n>', 'of that size').default('8'))
    .option('--failhard', 'end a batch at the first failure')
    .option('--subset <n>', 'run on so many minions, chosen at random', parseCount)
    .option('-s, --static', 'print all returns at once, at the end')
    .option('-d, --doc', 'show the documentation of a function, or of all')
    .addOption(new Option('--documentation').hideHelp())
    .option('-v, --verbose', 'tell the jid, and names in the summary')
    .option('--show-jid', 'tell the jid')
    .addOption(new Option('--show-timeout').hideHelp())
    .option('--hide-timeout', 'say nothing of minions that do not answer')
    .option('--summary', 'count at the end')
    .option('--return <names>', 'returners that run on the minions')
    .option('--start-event', 'minions of 3008 and later tell when they begin')
    .option('--metadata <map>', 'is kept with the job, and returned')
    .option('--jid <jid>', "the job's id, in place of a new one")
    .option('--args-separator <text>', 'stands between arguments of several functions', ',')
    .addOption(
      new Option('--no-parse <names>', 'keywords whose value is text').default('', 'none'),
    );
  addLoginOptions(command);
  addOutputOptions(command);
  command.addOption(logLevelOption());
}
