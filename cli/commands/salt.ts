import type { Command } from 'commander';
import type { JobsApi, RunRequest } from '../../master/index.ts';
import { BatchFollower } from '../batch-follower.ts';
import type { CommandContext } from '../context.ts';
import { CommandError } from '../errors.ts';
import { exitCodes } from '../exit-codes.ts';
import { JobFollower } from '../job-follower.ts';
import { brokenTarget, formatPlan } from '../output/plan.ts';
import { chooseOutput } from '../output-options.ts';
import { printJson, printLine } from '../print.ts';
import { addSaltOptions, type SaltOptions } from '../salt-options.ts';
import { parseBatchSize, toRunRequest } from '../salt-request.ts';
import { toTarget } from '../target-options.ts';
import { openSession } from '../user-session.ts';

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
  const [tgt, fun, ...args] = isDoc ? askForDocs(given) : given;
  if (options.plan === true && tgt !== undefined) return showPlan(tgt, options, context);
  if (tgt === undefined || fun === undefined) return tellIncomplete(command, context, tgt);
  let request: RunRequest;
  try {
    request = toRunRequest(tgt, fun, args, options);
  } catch (error) {
    if (!(error instanceof CommandError) || error.code !== 'ERR_COMPOUND') throw error;
    await printLine(context.stderr, error.message);
    return exitCodes.incomplete;
  }
  const session = await openSession(context, options);
  try {
    return await runJob(session.jobs, { ...request, ...whoever() }, options, context);
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
    options.batch ?? options.batchSize ?? (await safeBatch(jobs, request, options, context));
  if (options.async === true && batch === undefined) return publish(jobs, request, context);
  return batch === undefined || options.static === true
    ? followJob(jobs, request, options, context)
    : followBatch(jobs, request, batch, options, context);
}

/** Who came by sudo is told, for `sudo_acl`. */
function whoever(): Pick<RunRequest, 'user'> {
  const { SUDO_USER: name } = process.env;
  return name === undefined ? {} : { user: `sudo_${name}` };
}

/** `--batch-safe-limit`: a batch where the target means so many. */
async function safeBatch(
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

async function showPlan(
  tgt: string,
  options: SaltOptions,
  { openApi, stdout, stderr }: CommandContext,
): Promise<number> {
  const { jobs } = await openApi(options.configDir);
  const plan = await jobs.plan(toTarget(tgt, options));
  if ((options.out ?? options.output) === 'json') await printJson(stdout, plan);
  else if (plan.minions.length > 0) await printLine(stdout, formatPlan(plan));
  if (plan.problem !== undefined) await printLine(stderr, brokenTarget(plan.problem));
  if (plan.minions.some(({ reason }) => reason !== 'missing')) return exitCodes.ok;
  await printLine(stderr, 'No minions matched the target.');
  return exitCodes.noReturn;
}

/** `-d [tgt] [fun]`. */
function askForDocs([tgt = '*', ...rest]: readonly string[]): string[] {
  return rest[0] === 'sys.doc' ? [tgt, ...rest] : [tgt, 'sys.doc', ...rest];
}

async function tellIncomplete(
  command: Command,
  { stdout, stderr }: CommandContext,
  tgt: string | undefined,
): Promise<number> {
  await printLine(stdout, command.helpInformation().trimEnd());
  const problem =
    tgt === undefined
      ? '\nCannot execute command without defining a target.\n'
      : '\nIncomplete options passed.\n';
  await printLine(stderr, problem);
  return exitCodes.incomplete;
}

async function publish(
  jobs: JobsApi,
  { timeout: _timeout, gatherJobTimeout: _gather, subset: _subset, ...request }: RunRequest,
  { stdout, stderr }: CommandContext,
): Promise<number> {
  const { jid, minions, problem } = await jobs.publish(request);
  if (problem !== undefined) await printLine(stderr, brokenTarget(problem));
  const isSent = minions.length > 0;
  if (!isSent) {
    const line = 'No minions matched the target. No command was sent, no jid was assigned.';
    await printLine(stdout, line);
  }
  await printLine(stdout, `Executed command with job ID: ${isSent ? jid : 0}`);
  return exitCodes.ok;
}

async function followJob(
  jobs: JobsApi,
  request: RunRequest,
  options: SaltOptions,
  context: CommandContext,
): Promise<number> {
  const follower = new JobFollower(context, {
    ...(await chooseOutput(options, context)),
    isStatic: options.static === true,
    isVerbose: options.verbose === true,
    showsJid: options.showJid === true,
    showsSilent: options.hideTimeout !== true || options.verbose === true,
    hasSummary: options.summary === true,
  });
  return follower.follow(jobs, request, context.interruption());
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
    await printLine(context.stdout, `Invalid batch data sent: ${batch}\n${batchForms}`);
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
const batchForms = 'Data must be in the form of %10, 10% or 3';
