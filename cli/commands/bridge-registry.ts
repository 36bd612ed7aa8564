import { type Command, Option } from 'commander';
import { isMap, tryParseJson } from '#runtime';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError } from '../errors.ts';
import { configOption, jsonOption, logLevelOption } from '../options.ts';
import { printJson, printLine } from '../terminal.ts';

/**
 * Subcommand for one kind of object that the bridge registers from a file, under a name: stacks or
 * data spaces.
 */
export interface Registry<Info extends object, Details extends Info> {
  /** Name of the subcommand. */
  readonly name: string;
  /** Prefix of the RPC methods, for example `stacks` for `stacks.add`. */
  readonly methods: string;
  readonly noun: string;
  /** Page of docs/ that describes the format of the file. */
  readonly page: string;
  readonly help: {
    readonly all: string;
    readonly add: string;
    readonly show: string;
    readonly remove: string;
  };
  print(info: Info): Promise<void>;
  printDetails(details: Details): Promise<void>;
  /** Prints advice about an object that was added. Called also with `--json`. */
  printAdvice?(added: Info): Promise<void>;
}

interface RegistryOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly owner?: string;
}

/** Adds a subcommand of `saltbridge bridge` with `add`, `list`, `show` and `remove`. */
export function addRegistry<Info extends object, Details extends Info>(
  bridge: Command,
  context: CommandContext,
  registry: Registry<Info, Details>,
): void {
  const { help, noun, methods } = registry;
  const parent = bridge.command(registry.name).description(help.all);
  const subcommand = (name: string, description: string, ...own: readonly Option[]): Command => {
    const command = parent.command(name).description(description);
    const options = [...own, configOption(), jsonOption(), logLevelOption()];
    for (const option of options) command.addOption(option);
    return command;
  };
  const ownerOption = (description: string): Option => new Option('--owner <name>', description);
  const call = async <Result>(method: string, { configDir, owner }: RegistryOptions, args = {}) => {
    const extension = await context.openExtension(configDir, 'bridge');
    const whose = owner === undefined ? {} : { owner };
    return extension.call<Result>(`${methods}.${method}`, { ...args, ...whose });
  };

  const addOptions = [
    ownerOption(`owner of the ${noun}, for example a project`),
    new Option('--replace', `replace the existing ${noun} of this name`),
  ];
  subcommand('add', help.add, ...addOptions)
    .argument('<name>', `name of the ${noun}`)
    .argument(
      '<file>',
      `file with the registration as JSON, see ${registry.page}; - reads standard input`,
    )
    .action(
      async (
        name: string,
        file: string,
        options: RegistryOptions & { readonly replace?: boolean },
      ) => {
        // Read the object from a file, because every account on the machine can see command lines.
        const registration = { ...parseMap(await readFileOrStandardInput(file, context)), name };
        const replaces = options.replace ?? false;
        const info = await call<Info>('add', options, { registration, replaces });
        await (options.json ? printJson(context.stdout, info) : registry.print(info));
        await registry.printAdvice?.(info);
      },
    );

  const listOption = ownerOption(`list only the ${noun}s of this owner`);
  subcommand('list', `list the registered ${noun}s`, listOption).action(
    async (options: RegistryOptions) => {
      const list = await call<readonly Info[]>('list', options);
      if (options.json) return printJson(context.stdout, list);
      if (list.length === 0) await printLine(context.stderr, `No ${noun} is registered.`);
      for (const info of list) await registry.print(info);
    },
  );

  const about = <Result extends Info>(
    name: 'remove' | 'show',
    print: (info: Result) => Promise<void>,
  ): void => {
    const ofWhom = ownerOption(
      `owner of the ${noun}; necessary if several owners have a ${noun} of this name`,
    );
    subcommand(name, help[name], ofWhom)
      .argument('<name>')
      .action(async (of: string, options: RegistryOptions) => {
        const info = await call<Result>(name, options, { name: of });
        await (options.json ? printJson(context.stdout, info) : print(info));
      });
  };
  about<Details>('show', (details) => registry.printDetails(details));
  about<Info>('remove', (info) => registry.print(info));
}

function parseMap(text: string): object {
  const given: unknown = tryParseJson(text);
  if (isMap(given)) return given;
  throw new CommandError(
    'ERR_ARGS',
    'the registration file does not contain a JSON object, or is nested too deeply',
  );
}
