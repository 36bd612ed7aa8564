import { type Command, Option } from 'commander';
import {
  type BatchRequest,
  type JobsApi,
  joinKeywords,
  parseArgument,
  parseArguments,
  type RunRequest,
} from '../../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { textOrder } from '../../python/operators.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { addLoginOptions, type LoginOptions, openCommandSession, sudoUser } from '../login.ts';
import { configOption, logLevelOption, parseCount, parseSeconds } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  formatData,
  type OutputCommandOptions,
} from '../output/outputters.ts';
import { printJson, printLine } from '../terminal.ts';
import {
  BatchFollower,
  formatTargetPlan,
  formatTargetProblem,
  JobFollower,
  noMinionsMatched,
  noReturnReceived,
} from './salt-follower.ts';
import { addTargetOptions, rangeProblem, type TargetOptions, toTarget } from './salt-target.ts';
import { useSaltUsage } from './salt-usage.ts';

// Options [salt utils/parsers.py].

/** As commander names them. */
interface SaltOptions extends SaltRequestOptions, OutputCommandOptions, LoginOptions {
  readonly configDir: string;
  readonly static?: boolean;
  readonly async?: boolean;
  readonly batch?: string;
  /** Salt's other name for it. */
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

/** Adds them all, in the order in which they are explained. */
function addSaltOptions(command: Command): void {
  command.addOption(configOption());
  addTargetOptions(command)
    .option('--dry-run', 'run nothing: list the minions that the target matches, and why')
    .option('--preview-target', 'run nothing: list the minions that the target matches')
    .option(
      '-t, --timeout <seconds>',
      'time without a return before minions are asked whether they still run the job',
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
    .option('-p, --progress', 'show progress, and a summary in place of returns')
    .option('-d, --doc', 'print the documentation of a function, or of all functions')
    .addOption(new Option('--documentation').hideHelp())
    .option('-v, --verbose', 'print the jid, and minion ids in the summary')
    .option('--show-jid', 'print the jid')
    .addOption(new Option('--show-timeout').hideHelp())
    .option('--hide-timeout', 'do not list minions that do not answer')
    .option('--summary', 'print a summary at the end')
    .option('--return <names>', 'returners for the minions to use')
    .option('--start-event', 'let minions of 3008 and later fire an event when they begin')
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

// From options to a request [salt utils/parsers.py SaltCMDOptionParser].

/** Options of the command that say what is to be done. */
interface SaltRequestOptions extends TargetOptions {
  readonly timeout?: number;
  readonly gatherJobTimeout?: number;
  readonly subset?: number;
  readonly metadata?: string;
  readonly startEvent?: boolean;
  readonly return?: string;
  readonly jid?: string;
  readonly argsSeparator: string;
  /** Names, comma separated; commander's name for `--no-parse`. */
  readonly parse: string;
}

/**
 * The request of a command line.
 * @throws CommandError ERR_ARGS, ERR_COMPOUND
 */
function toRunRequest(
  tgt: string,
  fun: string,
  args: readonly string[],
  options: SaltRequestOptions,
): RunRequest {
  const { timeout, gatherJobTimeout, subset, metadata, jid } = options;
  return {
    ...toTarget(tgt, options),
    ...parseCall(fun, args, options),
    ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
    ...(gatherJobTimeout === undefined ? {} : { gatherJobTimeoutSeconds: gatherJobTimeout }),
    ...(subset === undefined ? {} : { subset }),
    ...(options.startEvent === true ? { startEvent: true } : {}),
    ...(metadata === undefined ? {} : { metadata: parseMetadata(metadata) }),
    ...(options.return === undefined ? {} : { ret: options.return }),
    ...(jid === undefined ? {} : { jid }),
  };
}

/** `undefined`: it is not the size of a batch. */
function parseBatchSize(text: string): BatchRequest['size'] | undefined {
  const bare = text.replace(/^%|%$/, '');
  const isPart = bare !== text;
  if (!/^\d{1,9}(\.\d+)?$/.test(bare) || (!isPart && bare.includes('.'))) return undefined;
  if (isPart) return `${bare}%`;
  return Number(bare) > 0 ? Number(bare) : undefined;
}

function parseCall(
  fun: string,
  args: readonly string[],
  { argsSeparator, parse }: SaltRequestOptions,
): Pick<RunRequest, 'fun' | 'arg' | 'kwarg'> {
  const noParse = parse.split(',');
  if (!fun.includes(',')) return { fun, ...parseArguments(args, noParse) };
  const funs = fun.split(',');
  const lists = splitArguments(args, funs.length, argsSeparator);
  return { fun: funs, arg: lists.map((list) => parseArgumentList(list, noParse)) };
}

/** Separators stand alone, or else anywhere inside the arguments. */
function splitArguments(args: readonly string[], functions: number, separator: string): string[][] {
  const isAlone = args.filter((arg) => arg === separator).length === functions - 1;
  const lists: string[][] = [[]];
  for (const arg of args) {
    const parts = isAlone && arg !== separator ? [arg] : arg.split(separator);
    for (const [index, part] of parts.entries()) {
      if (index > 0) lists.push([]);
      if (part !== '' || (isAlone && arg === '')) lists.at(-1)?.push(part);
    }
  }
  if (lists.length === functions) return lists;
  const problem =
    lists.length < functions
      ? 'without defining all arguments.'
      : 'with more arguments than commands.';
  throw new CommandError('ERR_COMPOUND', `Cannot execute compound command ${problem}`);
}

function parseArgumentList(args: readonly string[], noParse: readonly string[]): WireValue[] {
  return joinKeywords(parseArguments(args, noParse));
}

function parseMetadata(text: string): WireMap {
  const value = parseArgument(text);
  if (isWireMap(value)) return value;
  throw new CommandError('ERR_ARGS', '--metadata is not a map; expected for instance {key: value}');
}

/** `saltbridge salt`: takes the flags of Salt's own command and prints what it prints. */
export function addSaltCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('salt')
    .description('run a function on minions')
    .usage('[options] <tgt> <fun> [args...]')
    .argument('[tgt]', 'which minions: a glob on their ids, or as one of the options says')
    .argument('[fun]', 'the function, for instance test.ping; several: test.ping,test.echo')
    .argument('[args...]', 'its arguments: YAML values, or name=value');
  addSaltOptions(command);
  useSaltUsage(command, context.stdout);
  command.action(
    async (
      tgt: string | undefined,
      fun: string | undefined,
      args: string[],
      options: SaltOptions,
    ) => {
      context.setExitCode(await runSalt(command, context, [tgt, fun, ...args], options));
    },
  );
}

async function runSalt(
  command: Command,
  context: CommandContext,
  words: readonly (string | undefined)[],
  options: SaltOptions,
): Promise<number> {
  const isDoc = options.doc === true || options.documentation === true;
  const given = words.filter((word) => word !== undefined);
  const [tgt, fun, ...args] = isDoc ? toDocsArguments(given) : given;
  if (options.dryRun === true && tgt !== undefined) return showTargetPlan(tgt, options, context);
  if (options.previewTarget === true) return previewTarget(tgt, options, context);
  if (tgt === undefined || fun === undefined) return printIncompleteUsage(command, context, tgt);
  let request: RunRequest;
  try {
    request = toRunRequest(tgt, fun, args, options);
  } catch (error) {
    if (!(error instanceof CommandError) || error.code !== 'ERR_COMPOUND') throw error;
    await printLine(context.stderr, error.message);
    return exitCodes.incomplete;
  }
  if (options.range === true)
    return (await createFollower(options, context)).showNobody(rangeProblem);
  const session = await openCommandSession(context, options);
  try {
    return await runJob(session.jobs, { ...request, ...sudoUser() }, options, context);
  } finally {
    await session.close();
  }
}

async function runJob(
  jobs: JobsApi,
  request: RunRequest,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const batch =
    options.batch ??
    options.batchSize ??
    (await batchSizeBySafeLimit(jobs, request, options, context));
  if (options.async === true && batch === undefined) return publishJob(jobs, request, context);
  return batch === undefined || options.static === true
    ? followJob(jobs, request, options, context)
    : followBatch(jobs, request, batch, options, context);
}

/** `--batch-safe-limit`: a batch where the target means so many. */
async function batchSizeBySafeLimit(
  jobs: JobsApi,
  { tgt, tgtType, delimiter }: RunRequest,
  { batchSafeLimit = 0, batchSafeSize, static: isStatic }: SaltOptions,
  { stdout }: CommandContext,
): Promise<string | undefined> {
  if (batchSafeLimit <= 1 || isStatic === true) return undefined;
  const { minions } = await jobs.plan({
    tgt,
    ...(tgtType === undefined ? {} : { tgtType }),
    ...(delimiter === undefined ? {} : { delimiter }),
  });
  const meant = minions.filter(({ reason }) => reason !== 'missing');
  if (meant.length < batchSafeLimit) return undefined;
  const notice = '\nNOTICE: Too many minions targeted, switching to batch execution.';
  await printLine(stdout, notice);
  return batchSafeSize;
}

async function showTargetPlan(
  tgt: string,
  options: SaltOptions,
  { openApi, stdout, stderr }: CommandContext,
): Promise<number> {
  const { jobs } = await openApi(options.configDir);
  const plan = await jobs.plan(toTarget(tgt, options));
  if ((options.out ?? options.output) === 'json') await printJson(stdout, plan);
  else if (plan.minions.length > 0) await printLine(stdout, formatTargetPlan(plan));
  if (plan.problem !== undefined) await printLine(stderr, formatTargetProblem(plan.problem));
  if (plan.minions.some(({ reason }) => reason !== 'missing')) return exitCodes.ok;
  await printLine(stderr, 'No minions matched the target.');
  return exitCodes.noReturn;
}

/** `--preview-target`: ids, as any value is printed. */
async function previewTarget(
  tgt: string | undefined,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const { stderr } = context;
  if (tgt === undefined) {
    await printLine(stderr, incompleteOptions);
    return exitCodes.incomplete;
  }
  const minions = options.range === true ? [] : await matchingMinions(tgt, options, context);
  const { output, sink } = await chooseOutput(options, context);
  await sink.write(formatData(minions, undefined, output));
  if (minions.length > 0) return exitCodes.ok;
  await printLine(stderr, noReturnReceived);
  return exitCodes.noReturn;
}

async function matchingMinions(
  tgt: string,
  options: SaltOptions,
  { openApi, stderr }: CommandContext,
): Promise<string[]> {
  const { jobs } = await openApi(options.configDir);
  const { minions, problem } = await jobs.plan(toTarget(tgt, options));
  if (problem !== undefined) await printLine(stderr, formatTargetProblem(problem));
  return minions.flatMap(({ id, reason }) => (reason === 'missing' ? [] : [id])).sort(textOrder);
}

const incompleteOptions = '\nIncomplete options passed.\n';

/** `-d [tgt] [fun]`. */
function toDocsArguments([tgt = '*', ...rest]: readonly string[]): string[] {
  return rest[0] === 'sys.doc' ? [tgt, ...rest] : [tgt, 'sys.doc', ...rest];
}

async function printIncompleteUsage(
  command: Command,
  { stdout, stderr }: CommandContext,
  tgt: string | undefined,
): Promise<number> {
  await printLine(stdout, command.helpInformation().trimEnd());
  const problem =
    tgt === undefined ? '\nCannot execute command without defining a target.\n' : incompleteOptions;
  await printLine(stderr, problem);
  return exitCodes.incomplete;
}

async function publishJob(
  jobs: JobsApi,
  {
    timeoutSeconds: _timeout,
    gatherJobTimeoutSeconds: _gather,
    subset: _subset,
    ...request
  }: RunRequest,
  { stdout, stderr }: CommandContext,
): Promise<number> {
  const { jid, minions, problem } = await jobs.publish(request);
  if (problem !== undefined) await printLine(stderr, formatTargetProblem(problem));
  const isSent = minions.length > 0;
  if (!isSent) await printLine(stdout, noMinionsMatched);
  await printLine(stdout, `Executed command with job ID: ${isSent ? jid : 0}`);
  return exitCodes.ok;
}

async function followJob(
  jobs: JobsApi,
  request: RunRequest,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const follower = await createFollower(options, context);
  return follower.follow(jobs, request, context.interruption());
}

async function createFollower(options: SaltOptions, context: CommandContext): Promise<JobFollower> {
  return new JobFollower(context, {
    ...(await chooseOutput(options, context)),
    isStatic: options.static === true,
    isVerbose: options.verbose === true,
    showsJid: options.showJid === true,
    showsSilent: options.hideTimeout !== true || options.verbose === true,
    hasSummary: options.summary === true,
    isProgressOnly: options.progress === true,
  });
}

async function followBatch(
  jobs: JobsApi,
  request: RunRequest,
  batch: string,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const size = parseBatchSize(batch);
  if (size === undefined) {
    await printLine(context.stdout, `Invalid batch data sent: ${batch}\n${batchSizeForms}`);
    return exitCodes.failure;
  }
  const { batchWait, failhard } = options;
  const follower = new BatchFollower(context, await chooseOutput(options, context));
  const spread = {
    size,
    ...(batchWait === undefined ? {} : { waitSeconds: batchWait }),
    ...(failhard === undefined ? {} : { failHard: failhard }),
  };
  return follower.follow(jobs, { ...request, ...spread }, context.interruption());
}

/** Salt's words. */
const batchSizeForms = 'Data must be in the form of %10, 10% or 3';
