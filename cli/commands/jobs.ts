import type { Command } from 'commander';
import { configOption, jsonOption, logLevelOption, parseCount } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { describeJob, jobAsJson, listJobs } from '../job-show.ts';
import { formatReturn } from '../output/returns.ts';
import { addOutputOptions, chooseOutput, type OutputCommandOptions } from '../output-options.ts';
import { printLine } from '../print.ts';

interface ListOptions {
  readonly configDir: string;
  readonly limit?: number;
  readonly json?: boolean;
}

interface ShowOptions extends OutputCommandOptions {
  readonly configDir: string;
  readonly returns: boolean;
  readonly json?: boolean;
}

/** `saltbridge jobs`: what was published, what came back, and why the rest did not. */
export function addJobsCommand(program: Command, context: CommandContext): void {
  const jobs = program.command('jobs').description('see jobs and what came back');
  jobs
    .command('list')
    .description('list the latest jobs')
    .addOption(configOption())
    .option('-n, --limit <n>', 'how many', parseCount, 50)
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, limit = 50, json }: ListOptions) => {
      const api = await context.openApi(configDir);
      await listJobs(await api.jobs.list({ limit }), { isJson: json === true }, context);
    });
  const show = jobs
    .command('show')
    .description('show one job: what became of it at each minion, and what came back')
    .argument('<jid>', "the job's id")
    .addOption(configOption())
    .option('--no-returns', 'without what came back');
  addOutputOptions(show);
  show
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action((jid: string, options: ShowOptions) => showJob(jid, options, context));
}

async function showJob(jid: string, options: ShowOptions, context: CommandContext): Promise<void> {
  const api = await context.openApi(options.configDir);
  const job = await api.jobs.show(jid);
  if (options.json === true) {
    await printLine(context.stdout, jobAsJson(job));
    return;
  }
  await printLine(context.stdout, describeJob(job));
  if (!options.returns || job.returns.length === 0) return;
  const { output, sink } = await chooseOutput(options, context);
  await printLine(context.stdout, '');
  for (const { minion, return: value, out } of job.returns) {
    const failed = job.deliveries.find((delivery) => delivery.minion === minion);
    const isFailure = failed?.state === 'failed';
    await sink.write(
      formatReturn({ minion, value, isFailure, ...(out === undefined ? {} : { out }) }, output),
    );
  }
}
