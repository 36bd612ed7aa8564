/** Options of `saltbridge salt` [salt utils/parsers.py]. */

import { type Command, Option } from 'commander';
import { addLoginOptions, type LoginOptions } from '../login-options.ts';
import { configOption, logLevelOption, parseCount, parseSeconds } from '../options.ts';
import { addOutputOptions, type OutputCommandOptions } from '../output/output-options.ts';
import type { SaltRequestOptions } from './salt-request.ts';
import { addTargetOptions } from './salt-target.ts';

/** Options of `saltbridge salt`, with commander's names. */
export interface SaltOptions extends SaltRequestOptions, OutputCommandOptions, LoginOptions {
  readonly configDir: string;
  readonly static?: boolean;
  readonly async?: boolean;
  readonly batch?: string;
  /** Second name that Salt has for the option `batch`. */
  readonly batchSize?: string;
  readonly batchWait?: number;
  readonly batchSafeLimit?: number;
  readonly batchSafeSize: string;
  readonly dryRun?: boolean;
  readonly previewTarget?: boolean;
  readonly progress?: boolean;
  readonly failhard?: boolean;
  readonly startEvent?: boolean;
  readonly doc?: boolean;
  readonly documentation?: boolean;
  readonly verbose?: boolean;
  readonly showJid?: boolean;
  readonly hideTimeout?: boolean;
  readonly summary?: boolean;
}

/** Adds all options, in the order of the help. */
export function addSaltOptions(command: Command): void {
  command.addOption(configOption());
  addTargetOptions(command)
    .option(
      '--dry-run',
      'list the minions that the target matches, and why, without running the function',
    )
    .option(
      '--preview-target',
      'list the minions that the target matches, without running the function',
    )
    .option(
      '-t, --timeout <seconds>',
      'seconds without a return after which the command asks the minions whether the job is still running',
      parseSeconds,
    )
    .option(
      '-g, --gather-job-timeout <seconds>',
      'seconds to wait for the answers of minions about whether the job is still running',
      parseSeconds,
    )
    .option('--async', 'print the jid and do not wait for returns')
    .option(
      '-b, --batch <n>',
      'number of minions that run the job at the same time, or a percentage: 25%',
    )
    .addOption(new Option('--batch-size <n>').hideHelp())
    .option(
      '--batch-wait <seconds>',
      'seconds to wait after a return before the next minion starts',
      parseSeconds,
    )
    .addOption(
      new Option(
        '--batch-safe-limit <n>',
        'run as a batch if the target matches at least n minions',
      ).argParser(parseCount),
    )
    .addOption(
      new Option('--batch-safe-size <n>', 'batch size for --batch-safe-limit').default('8'),
    )
    .option(
      '--failhard',
      'after the first failure, do not run the function on further minions of the batch',
    )
    .option(
      '--subset <n>',
      'choose n minions of the target at random, and run only on them',
      parseCount,
    )
    .option('-s, --static', 'print all returns together when the job has ended')
    .option('-p, --progress', 'show the progress, and a summary instead of the returns')
    .option('-d, --doc', 'print the documentation of a function, or of all functions')
    .addOption(new Option('--documentation').hideHelp())
    .option('-v, --verbose', 'print the jid, and list minion ids in the summary')
    .option('--show-jid', 'print the jid')
    .addOption(new Option('--show-timeout').hideHelp())
    .option('--hide-timeout', 'do not list minions that do not respond')
    .option('--summary', 'print a summary of the job after the returns')
    .option('--return <names>', 'returners to which the minions send their returns')
    .option(
      '--start-event',
      'make minions emit an event when they start the job; requires Salt 3008 or later on the minion',
    )
    .option('--metadata <map>', 'YAML map that is stored with the job and included in each return')
    .option('--jid <jid>', 'jid to use instead of a new one')
    .option(
      '--args-separator <text>',
      'separator between the argument lists of several functions',
      ',',
    )
    .addOption(
      new Option(
        '--no-parse <names>',
        'keyword arguments whose values are not parsed as YAML, separated by commas',
      ).default('', 'none'),
    );
  addLoginOptions(command);
  addOutputOptions(command);
  command.addOption(logLevelOption());
}
