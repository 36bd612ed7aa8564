import type { Command } from 'commander';
import { type MasterApi, type RunRequest, readBatchSize, type TargetPlan } from '#master';
import { textOrder } from '#template/python/comparison.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, errorCodeOf, exitCodes } from '../errors.ts';
import { openCommandSession, sudoUser } from '../login.ts';
import { chooseOutput } from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { printJson, printLine } from '../terminal.ts';
import { BatchFollower } from './follow-salt-batch.ts';
import { JobFollower, noMinionsMatched, noReturnReceived } from './follow-salt-job.ts';
import { printSaltFailure } from './salt-failures.ts';
import { addSaltOptions, type SaltOptions } from './salt-options.ts';
import { formatTargetPlan, formatTargetProblem, printLeftOut } from './salt-output.ts';
import { toRunRequest } from './salt-request.ts';
import { rangeProblem, toTarget } from './salt-target.ts';
import { formatSaltUsageError, useSaltUsage } from './salt-usage.ts';

/** Defines `saltbridge salt`, which accepts the flags of Salt's command and prints its output. */
export function defineSalt(command: Command, context: CommandContext): void {
  command
    .usage('[options] <tgt> <fun> [args...]')
    .argument(
      '[tgt]',
      'target: a glob on minion ids, or an expression of the type that an option selects',
    )
    .argument('[fun]', 'function, for example test.ping; several are separated by commas')
    .argument('[args...]', 'arguments of the function: YAML values, or name=value');
  addSaltOptions(command);
  useSaltUsage(command, context.stdout);
  command.action(
    async (
      tgt: string | undefined,
      fun: string | undefined,
      args: string[],
      options: SaltOptions,
    ) => {
      const status = await runSalt(command, context, [tgt, fun, ...args], options).catch((error) =>
        printSaltFailure(error, 'salt', context, options),
      );
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
  if (isDoc && args.length > 1) {
    const problem = 'You can only get documentation for one method at one time.';
    await printLine(context.stderr, formatSaltUsageError('salt', problem));
    return exitCodes.usage;
  }
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
  } catch (error) {
    if (!(error instanceof Error) || errorCodeOf(error) !== 'ERR_NODEGROUP_LOOP') throw error;
    return (await createFollower(options, context)).showNobody(error.message);
  } finally {
    await session.close();
  }
}

async function runJob(
  jobs: MasterApi['jobs'],
  request: RunRequest,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const batch =
    options.batch ??
    options.batchSize ??
    (await batchSizeBySafeLimit(jobs, request, options, context));
  for (const notice of ignoredOptions(options, batch !== undefined)) {
    await printLine(context.stderr, `saltbridge: ${notice}`);
  }
  if (options.async === true && batch === undefined) return publishJob(jobs, request, context);
  return batch === undefined
    ? followJob(jobs, request, options, context)
    : followBatch(jobs, request, batch, options, context);
}

/**
 * Returns warnings about options that have no effect together with other options. Salt ignores such
 * options silently.
 */
function ignoredOptions(options: SaltOptions, isBatch: boolean): string[] {
  const { async: isAsync, static: isStatic, subset, failhard, batchWait } = options;
  const notices: (readonly [isIgnored: boolean, notice: string])[] = isBatch
    ? [
        [isAsync === true, '--async has no effect with --batch; waiting for the returns'],
        [options.progress === true, '--progress has no effect with --batch'],
        [options.summary === true, '--summary has no effect with --batch'],
      ]
    : [
        [
          isAsync === true && subset !== undefined,
          '--subset has no effect with --async; the job goes to all minions of the target',
        ],
        [
          isStatic === true && (options.batchSafeLimit ?? 0) > 1,
          '--batch-safe-limit has no effect with --static; the job goes to all minions at once',
        ],
        [failhard === true, '--failhard has no effect without --batch'],
        [batchWait !== undefined, '--batch-wait has no effect without --batch'],
      ];
  return notices.flatMap(([isIgnored, notice]) => (isIgnored ? [notice] : []));
}

/**
 * Returns the batch size for `--batch-safe-limit`. Returns `undefined` if the target matches fewer
 * minions than the limit.
 */
async function batchSizeBySafeLimit(
  jobs: MasterApi['jobs'],
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
  const plan = await planTarget(await openApi(options.configDir), tgt, options);
  if ((options.out ?? options.output) === 'json') await printJson(stdout, plan);
  else if (plan.minions.length > 0) await printLine(stdout, formatTargetPlan(plan));
  if (plan.problem !== undefined) await printLine(stderr, formatTargetProblem(plan.problem));
  if (plan.minions.some(({ reason }) => reason !== 'missing')) return exitCodes.ok;
  await printLine(stderr, 'No minions matched the target.');
  return exitCodes.noReturn;
}

/**
 * Resolves a target. A nodegroup that is not defined, or that contains itself, matches no minion.
 */
async function planTarget(
  { jobs }: MasterApi,
  tgt: string,
  options: SaltOptions,
): Promise<TargetPlan> {
  const target = toTarget(tgt, options);
  try {
    return await jobs.plan(target);
  } catch (error) {
    if (!(error instanceof Error) || !/^ERR_NODEGROUP_/.test(errorCodeOf(error) ?? '')) throw error;
    return { tgt: target.tgt, tgtType: 'compound', minions: [], problem: error.message };
  }
}

/**
 * Prints the ids of the matching minions, for `--preview-target`. They are formatted like a return.
 */
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
  const { minions, problem } = await planTarget(await openApi(options.configDir), tgt, options);
  if (problem !== undefined) await printLine(stderr, formatTargetProblem(problem));
  return minions.flatMap(({ id, reason }) => (reason === 'missing' ? [] : [id])).sort(textOrder);
}

const incompleteOptions = '\nIncomplete options passed.\n';

/**
 * Converts the arguments of `salt -d [tgt] [fun]` to those of a call of `sys.doc`. The default
 * target is `*`.
 */
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
  jobs: MasterApi['jobs'],
  {
    timeoutSeconds: _timeout,
    gatherJobTimeoutSeconds: _gather,
    subset: _subset,
    ...request
  }: RunRequest,
  { stdout, stderr }: CommandContext,
): Promise<number> {
  const receipt = await jobs.publish(request);
  const { jid, minions, problem } = receipt;
  if (problem !== undefined) await printLine(stderr, formatTargetProblem(problem));
  await printLeftOut(stderr, receipt);
  const isSent = minions.length > 0;
  if (!isSent) await printLine(stdout, noMinionsMatched);
  await printLine(stdout, `Executed command with job ID: ${isSent ? jid : 0}`);
  return exitCodes.ok;
}

async function followJob(
  jobs: MasterApi['jobs'],
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
  jobs: MasterApi['jobs'],
  request: RunRequest,
  batch: string,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const size = readBatchSize(batch);
  if (size === undefined) {
    await printLine(context.stdout, `Invalid batch data sent: ${batch}\n${batchSizeForms}`);
    return exitCodes.failure;
  }
  const { batchWait, failhard } = options;
  const follower = new BatchFollower(context, {
    ...(await chooseOutput(options, context)),
    isStatic: options.static === true,
  });
  const spread = {
    size,
    ...(batchWait === undefined ? {} : { waitSeconds: batchWait }),
    ...(failhard === undefined ? {} : { failHard: failhard }),
  };
  return follower.follow(jobs, { ...request, ...spread }, context.interruption());
}

/** Salt's message for an invalid batch size. */
const batchSizeForms = 'Data must be in the form of %10, 10% or 3';
