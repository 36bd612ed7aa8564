import { type Command, Option } from 'commander';
import { configOption, logLevelOption, parseSeconds } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { addLoginOptions } from '../login-options.ts';
import { addOutputOptions } from '../output-options.ts';
import { runFunction, type SaltRunOptions, showDocs } from '../salt-run.ts';

/** `saltbridge salt-run`: takes the flags of Salt's own command and prints what it prints. */
export function addSaltRunCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('salt-run')
    .description('run a function on the master')
    .usage('[options] <function> [arguments]')
    .argument('[fun]', 'the function, for instance jobs.list_jobs; without: what there is')
    .argument('[args...]', 'its arguments: YAML values, or name=value')
    .addOption(configOption())
    .option('-t, --timeout <seconds>', 'time that minions have to answer', parseSeconds)
    .option('-d, --doc', 'show what a function, a module or all of them are for')
    .addOption(new Option('--documentation').hideHelp())
    .option('--async', 'start it, and do not wait')
    .option('--quiet', 'print nothing of what it returns')
    .option('--jid <jid>', "the run's id, in place of a new one")
    .addOption(new Option('--no-parse <names>', 'keywords whose value is text').default('', 'none'))
    .addOption(new Option('--skip-grains').hideHelp())
    .addOption(new Option('--hard-crash').hideHelp());
  addLoginOptions(command);
  addOutputOptions(command);
  command
    .addOption(logLevelOption())
    .action(async (fun: string | undefined, args: string[], options: SaltRunOptions) => {
      const isDoc = options.doc === true || options.documentation === true;
      context.setExitCode(
        isDoc || fun === undefined
          ? await showDocs(context, fun, options)
          : await runFunction(context, fun, args, options),
      );
    });
}
