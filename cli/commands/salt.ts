import { type Command, Option } from 'commander';
import {
  type BatchRequest,
  type BatchUpdate,
  isFailureCode,
  type JobReturn,
  type JobsApi,
  type JobUpdate,
  joinKeywords,
  type PlannedMinion,
  parseArgument,
  parseArguments,
  type RunRequest,
  returnerOf,
  type TargetPlan,
} from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { textOrder } from '#template/python/comparison.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { addLoginOptions, type LoginOptions, openCommandSession, sudoUser } from '../login.ts';
import { configOption, logLevelOption, parseCount, parseSeconds } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputCommandOptions,
  type OutputSink,
} from '../output/output-options.ts';
import {
  formatData,
  formatReturn,
  formatReturns,
  type MinionReturn,
  type OutputOptions,
} from '../output/outputters.ts';
import { mapEntries, pythonRepr, pythonStr } from '../output/value-text.ts';
import { escapeLines, escapeName, Progress, printJson, printLine } from '../terminal.ts';
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
export function defineSalt(command: Command, context: CommandContext): void {
  command
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
      const status = await runSalt(command, context, [tgt, fun, ...args], options);
      if (status !== exitCodes.ok) context.setExitCode(status);
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

// Output of `sys.doc` [salt cli/salt.py _print_docs].

/** Each function's text once, whichever minion has it first; sorted. */
function formatFunctionDocs(results: readonly MinionReturn[], options: OutputOptions): string[] {
  const docs = new Map<string, WireValue>();
  for (const { value } of results) {
    for (const [key, text] of mapEntries(value) ?? []) {
      const fun = pythonStr(key);
      if (!docs.has(fun) && text !== null && text !== '') docs.set(fun, text);
    }
  }
  const sorted = [...docs].sort(([left], [right]) => textOrder(left, right));
  return sorted.map(([fun, text]) =>
    options.outputter === undefined
      ? `${escapeName(fun)}:\n${escapeLines(pythonStr(text))}\n`
      : formatData(new Map([[fun, text]]), 'nested', options),
  );
}

// Output of `salt --summary` [salt cli/salt.py _print_returns_summary].

/** Who did what. */
interface JobSummaryFacts {
  readonly returned: readonly string[];
  /** Minions that did not return. */
  readonly silent: readonly string[];
  /** Those of `returned` that failed. */
  readonly failed: readonly string[];
}

const rule = '-'.repeat(43);

/** Begins with two empty lines. */
function formatJobSummary(facts: JobSummaryFacts, isVerbose: boolean): string {
  const { returned, silent, failed } = facts;
  const names = (title: string, minions: readonly string[]): string[] =>
    isVerbose && minions.length > 0 ? [`${title}: ${minions.map(escapeName).join(' ')}`] : [];
  return [
    '\n',
    rule,
    'Summary',
    rule,
    `# of minions targeted: ${returned.length + silent.length}`,
    `# of minions returned: ${returned.length}`,
    `# of minions that did not return: ${silent.length}`,
    `# of minions with errors: ${failed.length}`,
    ...names('Minions not responding', silent),
    ...names('Minions with failures', failed),
    rule,
  ].join('\n');
}

/** A line for each minion with the reason why it is there. */
function formatTargetPlan({ minions }: TargetPlan): string {
  return minions
    .map((minion) => `${escapeName(minion.id)}: ${formatTargetReason(minion)}`)
    .join('\n');
}

/** Why an expression means nobody. */
function formatTargetProblem(problem: string): string {
  return `saltbridge: the target is broken: ${escapeName(problem)}`;
}

function formatTargetReason(minion: PlannedMinion): string {
  switch (minion.reason) {
    case 'matched':
      return `matched by ${minion.by.map(escapeName).join(', ')}`;
    case 'facts-unknown':
      return 'facts unknown';
    case 'missing':
      return 'missing, no accepted key';
  }
}

// Output for minions that have not answered.

/** Why there is no return [salt client/__init__.py get_cli_event_returns]. */
function noResponseReturn(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [No response]\n${lookUpHint(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** The same of one that had not come back from a restart of the master. */
function reconnectingReturn(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [Reconnecting after the restart of the master]\n${lookUpHint(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** What Salt says when its person leaves before the minions are done [salt scripts.py]. */
function formatInterrupted(jid: string): string {
  return `\nExiting gracefully on Ctrl-c\nThis job's jid is: ${jid}\n${lookUpHint(jid)}`;
}

function lookUpHint(jid: string): string {
  return [
    'The minions may not have all finished running and any remaining minions will return upon ' +
      'completion. To look up the return data for this job later, run the following command:',
    '',
    `salt-run jobs.lookup_jid ${jid}`,
  ].join('\n');
}

/** What Salt says where a target means nobody. */
export const noMinionsMatched =
  'No minions matched the target. No command was sent, no jid was assigned.';

/** What Salt says where nothing was returned. */
const noReturnReceived = 'ERROR: No return received';

/** How a job is shown. */
interface JobFollowerOptions {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
  /** Everything at the end, in place of each return as it comes. */
  readonly isStatic: boolean;
  /** Names the jid first, and the minions in the summary. */
  readonly isVerbose: boolean;
  /** Names the jid first. */
  readonly showsJid: boolean;
  /** Whether minions that did not answer are told. */
  readonly showsSilent: boolean;
  /** Counts at the end. */
  readonly hasSummary: boolean;
  /** Counts at the end in place of all returns. */
  readonly isProgressOnly: boolean;
}

/** Follows one job and prints what `salt` prints [salt cli/salt.py]. For a single use. */
class JobFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: JobFollowerOptions;
  readonly #progress: Progress;
  readonly #returns: MinionReturn[] = [];
  readonly #silent: string[] = [];
  #expected = 0;
  #missing: readonly string[] = [];
  #jid: string | undefined;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: JobFollowerOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
    this.#progress = new Progress(context.stderr);
  }

  /** Publishes the job and prints it to its end. @returns the exit code, as Salt's */
  async follow(jobs: JobsApi, request: RunRequest, signal: AbortSignal): Promise<number> {
    const { isStatic, isProgressOnly } = this.#options;
    const isWhole = !isProgressOnly && (isStatic || request.fun === 'sys.doc');
    try {
      for await (const update of jobs.run(request, signal)) {
        if (signal.aborted) break;
        await this.#show(update, isWhole);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#progress.clear();
    }
    if (signal.aborted) return this.#finishInterrupted();
    if (this.#expected === 0) return this.#finishWithoutMinions();
    return isWhole ? this.#finishWhole(request.fun) : this.#finish();
  }

  /** What is printed where a target means nobody. @returns the exit code */
  async showNobody(problem: string): Promise<number> {
    await printLine(this.#stderr, formatTargetProblem(problem));
    return this.#finishWithoutMinions();
  }

  async #show(update: JobUpdate, isWhole: boolean): Promise<void> {
    switch (update.type) {
      case 'published':
        await this.#begin(update);
        break;
      case 'return':
        this.#returns.push({
          minion: returnerOf(update),
          value: update.return,
          isFailure: isFailureCode(update.retcode),
          ...(update.out === undefined ? {} : { out: update.out }),
        });
        if (!isWhole) await this.#print(this.#returns.at(-1));
        break;
      case 'running':
        break;
      case 'finished':
        await this.#end(update, isWhole);
        return;
    }
    this.#showProgress();
  }

  async #end(
    { jid, silent, reconnecting }: Extract<JobUpdate, { type: 'finished' }>,
    isWhole: boolean,
  ): Promise<void> {
    this.#silent.push(...silent, ...reconnecting, ...this.#missing);
    if (isWhole || !this.#options.showsSilent) return;
    for (const minion of this.#silent) {
      const result = reconnecting.includes(minion)
        ? reconnectingReturn(minion, jid)
        : noResponseReturn(minion, jid);
      await this.#print(result);
    }
  }

  async #begin({
    jid,
    minions,
    missing,
    problem,
  }: Extract<JobUpdate, { type: 'published' }>): Promise<void> {
    this.#jid = jid;
    this.#expected = minions.length;
    this.#missing = missing;
    if (missing.length > 0) await this.#printMinions('no accepted key', missing);
    if (problem !== undefined) await printLine(this.#stderr, formatTargetProblem(problem));
    if (this.#expected === 0 || this.#options.isStatic) return;
    const title = `Executing job with jid ${jid}`;
    if (this.#options.isVerbose) {
      await printLine(this.#stdout, `${title}\n${'-'.repeat(title.length)}\n`);
    } else if (this.#options.showsJid) {
      await printLine(this.#stdout, `jid: ${jid}`);
    }
  }

  async #print(result: MinionReturn | undefined): Promise<void> {
    if (result === undefined || this.#options.isProgressOnly) return;
    this.#progress.clear();
    await this.#options.sink.write(formatReturn(result, this.#options.output));
  }

  #showProgress(): void {
    const answered = this.#returns.length;
    if (answered < this.#expected) {
      this.#progress.show(`${answered} of ${this.#expected} answered`);
    }
  }

  async #printMinions(what: string, minions: readonly string[]): Promise<void> {
    await printLine(this.#stderr, `saltbridge: ${what}: ${minions.map(escapeName).join(', ')}`);
  }

  async #finish(): Promise<number> {
    const { hasSummary, isProgressOnly, isVerbose, output, showsSilent } = this.#options;
    const failed = this.#returns.filter(({ isFailure }) => isFailure);
    const silent = showsSilent ? this.#silent : [];
    if (isProgressOnly || (hasSummary && output.outputter === undefined)) {
      const facts = { returned: this.#returns.map(minionOf), silent, failed: failed.map(minionOf) };
      await printLine(this.#stdout, formatJobSummary(facts, isVerbose));
    }
    // As in Salt, the exit code then says nothing of the returns.
    if (isProgressOnly || (failed.length === 0 && silent.length === 0)) return exitCodes.ok;
    await printLine(this.#stderr, 'ERROR: Minions returned with non-zero exit code');
    return exitCodes.failure;
  }

  /** As Salt, with `--static` the exit code says whether anybody returned, and nothing else. */
  async #finishWhole(fun: string | readonly string[]): Promise<number> {
    const { output, sink, isStatic } = this.#options;
    if (this.#silent.length > 0) await this.#printMinions('no answer', this.#silent);
    if (this.#returns.length === 0) return this.#finishWithoutReturns();
    const texts =
      fun === 'sys.doc'
        ? formatFunctionDocs(this.#returns, output)
        : [formatReturns(this.#returns, fun, output)];
    for (const text of texts) await (isStatic ? sink.write(text) : printLine(this.#stdout, text));
    return exitCodes.ok;
  }

  async #finishWithoutMinions(): Promise<number> {
    await printLine(this.#stdout, noMinionsMatched);
    if (!this.#options.isStatic) {
      await this.#options.sink.write(formatReturns([], '', this.#options.output));
    }
    return this.#finishWithoutReturns();
  }

  async #finishWithoutReturns(): Promise<number> {
    await printLine(this.#stderr, noReturnReceived);
    return exitCodes.noReturn;
  }

  async #finishInterrupted(): Promise<number> {
    const text =
      this.#jid === undefined ? '\nExiting gracefully on Ctrl-c' : formatInterrupted(this.#jid);
    await printLine(this.#stderr, text);
    return exitCodes.interrupted;
  }
}

function minionOf({ minion }: MinionReturn): string {
  return minion;
}

/** How a batch is shown. */
interface BatchFollowerOptions {
  readonly output: OutputOptions;
  readonly sink: OutputSink;
}

/** Follows a batch and prints what `salt --batch` prints [salt cli/batch.py]. For a single use. */
class BatchFollower {
  readonly #stdout: CommandContext['stdout'];
  readonly #stderr: CommandContext['stderr'];
  readonly #options: BatchFollowerOptions;
  #jid: string | undefined;
  #code: number = exitCodes.ok;

  constructor(context: Pick<CommandContext, 'stdout' | 'stderr'>, options: BatchFollowerOptions) {
    this.#stdout = context.stdout;
    this.#stderr = context.stderr;
    this.#options = options;
  }

  /** Runs the batch and prints it to its end. @returns the exit code: the highest retcode */
  async follow(jobs: JobsApi, request: BatchRequest, signal: AbortSignal): Promise<number> {
    try {
      for await (const update of jobs.batch(request, signal)) {
        if (signal.aborted) break;
        await this.#show(update);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (!signal.aborted) return this.#code;
    const text = '\nExiting gracefully on Ctrl-c';
    await printLine(this.#stderr, this.#jid === undefined ? text : formatInterrupted(this.#jid));
    return exitCodes.interrupted;
  }

  async #show(update: BatchUpdate): Promise<void> {
    switch (update.type) {
      case 'gathered':
        return this.#showGathered(update);
      case 'published': {
        this.#jid = update.jid;
        const minions = pythonRepr([...update.minions].sort(textOrder));
        return printLine(this.#stdout, `\nExecuting run on ${minions}\n`);
      }
      case 'return':
        return this.#showReturn(update.jid, update);
      case 'running':
        return;
      case 'finished':
        for (const minion of [...update.silent, ...update.reconnecting]) {
          await this.#write(new Map([[minion, {}]]), undefined);
        }
        return;
      case 'ended':
        if (update.failed === undefined) return;
        return printLine(
          this.#stderr,
          `[ERROR   ] Minion ${escapeName(update.failed)} returned with non-zero exit code. ` +
            'Batch run stopped due to failhard',
        );
    }
  }

  async #showGathered({
    minions,
    silent,
  }: Extract<BatchUpdate, { type: 'gathered' }>): Promise<void> {
    if (minions.length === 0) {
      const told = silent.length > 0 ? [] : noBatch;
      for (const line of told) await printLine(this.#stdout, line);
      return;
    }
    for (const minion of silent) {
      const line = `Minion ${escapeName(minion)} did not respond. No job will be sent.`;
      await printLine(this.#stdout, line);
    }
  }

  async #showReturn(jid: string, result: JobReturn): Promise<void> {
    const { retcode, return: value, out } = result;
    const code = highestCode(retcode);
    this.#code = Math.max(this.#code, code);
    const data = new Map<string, WireValue>([
      ['retcode', code],
      ['jid', jid],
      [returnerOf(result), value],
    ]);
    await this.#write(data, out);
  }

  async #write(data: Map<string, WireValue>, out: string | undefined): Promise<void> {
    await this.#options.sink.write(
      escapeLines(formatData(new Map(data), out, this.#options.output)),
    );
  }
}

const noBatch = [noMinionsMatched, 'No minions matched the target.'];

/** Several functions have a code each. */
function highestCode(retcode: WireValue): number {
  const codes = (mapEntries(retcode) ?? []).map(([, code]) => highestCode(code));
  if (codes.length > 0) return Math.max(...codes);
  if (typeof retcode === 'number') return retcode;
  return isFailureCode(retcode) ? exitCodes.failure : exitCodes.ok;
}
