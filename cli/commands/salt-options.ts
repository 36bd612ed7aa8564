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
    .option('--dry-run', 'run nothing: list the minions that the target matches, and why')
    .option('--preview-target', 'run nothing: list the minions that the target matches')
    .option(
      '-t, --timeout <seconds>',
      'time without a return after which minions are asked whether they are still running the job',
      parseSeconds,
    )
    .option(
      '-g, --gather-job-timeout <seconds>',
      'time for minions to answer that question',
      parseSeconds,
    )
    .option('--async', 'print the jid and do not wait for returns')
    .option('-b, --batch <n>', 'number of minions at a time, or a share of them: 25%')
    .addOption(new Option('--batch-size <n>').hideHelp())
    .option(
      '--batch-wait <seconds>',
      'wait after a return before the next minion starts',
      parseSeconds,
    )
    .addOption(
      new Option(
        '--batch-safe-limit <n>',
        'use a batch if the target matches at least n minions',
      ).argParser(parseCount),
    )
    .addOption(new Option('--batch-safe-size <n>', 'batch size in that case').default('8'))
    .option('--failhard', 'stop a batch at the first failure')
    .option('--subset <n>', 'run on n minions, chosen at random', parseCount)
    .option('-s, --static', 'print all returns together at the end')
    .option('-p, --progress', 'show progress, and a summary instead of returns')
    .option('-d, --doc', 'print the documentation of a function, or of all functions')
    .addOption(new Option('--documentation').hideHelp())
    .option('-v, --verbose', 'print the jid, and minion ids in the summary')
    .option('--show-jid', 'print the jid')
    .addOption(new Option('--show-timeout').hideHelp())
    .option('--hide-timeout', 'do not list minions that do not respond')
    .option('--summary', 'print a summary at the end')
    .option('--return <names>', 'returners for the minions to use')
    .option('--start-event', 'let minions of 3008 and later emit an event when they begin')
    .option('--metadata <map>', 'data that is stored with the job and returned')
    .option('--jid <jid>', 'jid to use instead of a new one')
    .option('--args-separator <text>', 'separator of the arguments of several functions', ',')
    .addOption(
      new Option('--no-parse <names>', 'keywords whose value is not parsed as YAML').default(
        '',
        'none',
      ),
    );
  addLoginOptions(command);
  addOutputOptions(command);
  command.addOption(logLevelOption());
}
