import { fileURLToPath } from 'node:url';
import { Argument, type Command, type Option } from 'commander';
import type { MasterApi } from '#master';
import { readTextIfPresent } from '#runtime';
import type { CommandContext } from '../context.ts';
import type { LoadAll } from '../define-command.ts';
import { configOption } from '../options.ts';
import { printLine } from '../terminal.ts';

/** Kind of value that can be completed for an argument or an option. */
type CompletionKind =
  | 'any'
  | 'files'
  /** Ids of minions with an accepted key. */
  | 'minions'
  /** Ids of all keys. */
  | 'keys'
  /** Ids of the latest jobs. */
  | 'jids'
  | { readonly words: readonly string[] };

/** An option of a command, with all of its names. */
interface CompletionOption {
  readonly flags: readonly string[];
  readonly description: string;
  /** Kind of the option's value. `undefined` for an option without a value. */
  readonly value: CompletionKind | undefined;
}

/** Command for completion: the program itself, or one of its subcommands. */
interface CompletionCommand {
  /** Names of the commands from the program to this command. Empty for the program itself. */
  readonly path: readonly string[];
  readonly description: string;
  readonly options: readonly CompletionOption[];
  readonly arguments: readonly CompletionKind[];
  readonly commands: readonly CompletionCommand[];
}

/** Kinds of values, by the names that arguments and option values have in the help. */
const completionKinds: ReadonlyMap<string, CompletionKind> = new Map([
  ['dir', 'files'],
  ['file', 'files'],
  ['glob', 'keys'],
  ['id', 'keys'],
  ['jid', 'jids'],
  ['target', 'files'],
  ['tgt', 'minions'],
]);

/** Returns the words that can be completed for a command and its subcommands. */
function describeCommand(command: Command, path: readonly string[] = []): CompletionCommand {
  const help = command.createHelp();
  return {
    path,
    description: command.description(),
    options: help.visibleOptions(command).map(describeOption),
    arguments: command.registeredArguments.map(describeArgument),
    commands: help
      .visibleCommands(command)
      .filter((it) => command.commands.includes(it))
      .map((it) => describeCommand(it, [...path, it.name()])),
  };
}

/** Returns a command and all commands below it, parents first. */
function allCommands(command: CompletionCommand): CompletionCommand[] {
  return [command, ...command.commands.flatMap(allCommands)];
}

function describeOption(option: Option): CompletionOption {
  const flags = [option.short, option.long].filter((flag) => flag !== undefined);
  const takesValue = option.required || option.optional;
  const [, name = ''] = /[<[]([^>\]]*)/.exec(option.flags) ?? [];
  return {
    flags,
    description: option.description,
    value: takesValue ? completionKindOf(name, option.argChoices) : undefined,
  };
}

function describeArgument(argument: Argument): CompletionKind {
  return completionKindOf(argument.name(), argument.argChoices);
}

function completionKindOf(name: string, choices: readonly string[] | undefined): CompletionKind {
  return choices === undefined ? (completionKinds.get(name) ?? 'any') : { words: choices };
}

/**
 * Returns a completion script for bash. Ids are requested from the running master. The script
 * offers only ids without special characters, because bash would expand those characters.
 */
function bashCompletion(program: CompletionCommand): string {
  const commands = allCommands(program);
  return `# Completion of saltbridge for bash; made by: saltbridge completion bash

_saltbridge_words() {
  case $1 in
${commands.map(commandWords).join('\n')}
  esac
}

_saltbridge_flags() {
  case $1 in
${commands.map(commandFlags).join('\n')}
  esac
}

# Sets kind to what an option of a command takes.
_saltbridge_value() {
  case "$1|$2" in
${commands.flatMap(valueCases).join('\n')}
    *) kind='' ;;
  esac
}

# Sets kind to what stands in a place behind a command.
_saltbridge_argument() {
  case "$1|$2" in
${commands.flatMap(argumentCases).join('\n')}
    *) kind='' ;;
  esac
}

_saltbridge_offer() {
  local word
  while IFS= read -r word; do
    [[ $word == "$1"* ]] && COMPREPLY+=("$word")
  done
}

_saltbridge_complete() {
  local current=\${COMP_WORDS[COMP_CWORD]} command='' word kind='' before='' config=/etc/salt
  local -i index place=0
  COMPREPLY=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    if [[ -n $kind ]]; then
      [[ $before == -c || $before == --config-dir ]] && config=$word
      kind=''
    elif [[ $word == -* ]]; then
      _saltbridge_value "$command" "$word"
      before=$word
    elif [[ $place == 0 && " $(_saltbridge_words "$command") " == *" $word "* ]]; then
      command=\${command:+$command }$word
    else
      place+=1
    fi
  done
  if [[ -z $kind && $current == -* ]]; then
    _saltbridge_offer "$current" < <(_saltbridge_flags "$command" | tr ' ' '\\n')
    return
  fi
  if [[ -z $kind && $place == 0 ]]; then
    _saltbridge_offer "$current" < <(_saltbridge_words "$command" | tr ' ' '\\n')
  fi
  [[ -z $kind ]] && _saltbridge_argument "$command" "$place"
  case $kind in
    files)
      compopt -o filenames 2>/dev/null
      _saltbridge_offer "$current" < <(compgen -f -- "$current") ;;
    minions | keys | jids)
      _saltbridge_offer "$current" < <(saltbridge completion list "$kind" -c "$config" 2>/dev/null) ;;
    words:*)
      _saltbridge_offer "$current" < <(tr ' ' '\\n' <<<"\${kind#words:}") ;;
  esac
}

# For those who call one command by a name of its own: alias salt='saltbridge salt'.
_saltbridge_salt() { _saltbridge_as salt; }
_saltbridge_salt_key() { _saltbridge_as salt-key; }
_saltbridge_salt_run() { _saltbridge_as salt-run; }
_saltbridge_as() {
  COMP_WORDS=(saltbridge "$1" "\${COMP_WORDS[@]:1}")
  COMP_CWORD=$((COMP_CWORD + 1))
  _saltbridge_complete
}

complete -F _saltbridge_complete saltbridge
complete -p salt >/dev/null 2>&1 || complete -F _saltbridge_salt salt
complete -p salt-key >/dev/null 2>&1 || complete -F _saltbridge_salt_key salt-key
complete -p salt-run >/dev/null 2>&1 || complete -F _saltbridge_salt_run salt-run
`;
}

/** Returns a completion script for zsh. It uses zsh's emulation of bash completion. */
function zshCompletion(program: CompletionCommand): string {
  return `autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bashCompletion(program)}`;
}

function commandWords({ path, commands }: CompletionCommand): string {
  const names = commands.map((command) => command.path.at(-1) ?? '');
  return `    ${quoteForBash(path.join(' '))}) echo ${quoteForBash(names.join(' '))} ;;`;
}

function commandFlags({ path, options }: CompletionCommand): string {
  const flags = options.flatMap((option) => option.flags);
  return `    ${quoteForBash(path.join(' '))}) echo ${quoteForBash(flags.join(' '))} ;;`;
}

function valueCases({ path, options }: CompletionCommand): string[] {
  return options.flatMap(({ flags, value }) => {
    if (value === undefined) return [];
    const patterns = flags.map((flag) => quoteForBash(`${path.join(' ')}|${flag}`));
    return [`    ${patterns.join(' | ')}) kind=${quoteForBash(bashKindText(value))} ;;`];
  });
}

function argumentCases({ path, arguments: places }: CompletionCommand): string[] {
  return places.map(
    (kind, place) =>
      `    ${quoteForBash(`${path.join(' ')}|${place}`)}) kind=${quoteForBash(bashKindText(kind))} ;;`,
  );
}

function bashKindText(kind: CompletionKind): string {
  return typeof kind === 'string' ? kind : `words:${kind.words.join(' ')}`;
}

function quoteForBash(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns a completion script for fish. It offers the same words as {@link bashCompletion}. */
function fishCompletion(program: CompletionCommand): string {
  const commands = allCommands(program);
  const paths = commands.flatMap(({ path }) =>
    path.length === 0 ? [] : [quoteForFish(path.join(' '))],
  );
  return `# Completion of saltbridge for fish; made by: saltbridge completion fish

# The command that the line has come to.
function __saltbridge_command
    set -l path ''
    for word in (commandline -opc)[2..]
        switch (string trim -- "$path $word")
            case ${paths.join(' ')}
                set path (string trim -- "$path $word")
        end
    end
    echo $path
end

function __saltbridge_list
    set -l config /etc/salt
    set -l words (commandline -opc)
    for index in (seq (count $words))
        if contains -- "$words[$index]" -c --config-dir
            set config $words[(math $index + 1)]
        end
    end
    saltbridge completion list $argv[1] -c $config 2>/dev/null
end

complete -c saltbridge -f
${commands.flatMap(fishLines).join('\n')}
`;
}

function fishLines(command: CompletionCommand): string[] {
  const start = `complete -c saltbridge -n ${quoteForFish(
    `test (__saltbridge_command) = "${command.path.join(' ')}"`,
  )}`;
  return [
    ...command.commands.map(
      ({ path, description }) =>
        `${start} -a ${quoteForFish(path.at(-1) ?? '')} -d ${quoteForFish(description)}`,
    ),
    ...command.options.map((option) => `${start} ${fishOptionText(option)}`),
    ...[...new Set(command.arguments.map(fishValueText))]
      .filter((value) => value !== '')
      .map((value) => `${start} ${value}`),
  ];
}

function fishOptionText({ flags, description, value }: CompletionOption): string {
  const names = flags.map((flag) =>
    flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
  );
  const takes = value === undefined ? [] : ['-r', fishValueText(value)];
  return [...names, ...takes, `-d ${quoteForFish(description)}`]
    .filter((part) => part !== '')
    .join(' ');
}

function fishValueText(kind: CompletionKind): string {
  if (typeof kind === 'object') return `-a ${quoteForFish(kind.words.join(' '))}`;
  if (kind === 'any') return '';
  return kind === 'files' ? '-F' : `-a ${quoteForFish(`(__saltbridge_list ${kind})`)}`;
}

function quoteForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

const shells: Readonly<Record<'bash' | 'zsh' | 'fish', (program: CompletionCommand) => string>> = {
  bash: bashCompletion,
  zsh: zshCompletion,
  fish: fishCompletion,
};

/** Maximum number of latest jobs that the scripts offer. */
const jobCount = 20;

/**
 * For each kind of id, the function that reads these ids from the master for the completion
 * scripts.
 */
const completionLists: Readonly<
  Record<'minions' | 'keys' | 'jids', (api: MasterApi) => Promise<readonly string[]>>
> = {
  minions: async (api) =>
    (await api.keys.list()).flatMap(({ id, state }) => (state === 'accepted' ? [id] : [])),
  keys: async (api) => (await api.keys.list()).map(({ id }) => id),
  jids: async (api) => (await api.jobs.list({ limit: jobCount })).map(({ jid }) => jid),
};

/**
 * Matches ids that are safe to offer. Any machine can submit a key under any id, so ids with
 * characters that a shell could interpret are omitted.
 */
const plainText = /^[\w.:@-]+$/;

/**
 * Reads the script that scripts/build.js stored in the package. Returns `undefined` in a checkout
 * of the sources.
 */
async function readStoredScript(shell: string): Promise<string | undefined> {
  return readTextIfPresent(fileURLToPath(new URL(`./completion.${shell}`, import.meta.url)));
}

/** Defines `saltbridge completion`, which prints a completion script for a shell. */
export function defineCompletion(
  command: Command,
  context: CommandContext,
  loadAll: LoadAll,
): void {
  for (const [shell, write] of Object.entries(shells)) {
    command
      .command(shell)
      .description(`for ${shell}`)
      .action(async () => {
        const stored = await readStoredScript(shell);
        const script = stored ?? write(describeCommand(await loadAll()));
        await printLine(context.stdout, script.trimEnd());
      });
  }
  command
    .command('list', { hidden: true })
    .addArgument(new Argument('<what>').choices(Object.keys(completionLists)))
    .addOption(configOption())
    .action(
      async (what: keyof typeof completionLists, { configDir }: { readonly configDir: string }) => {
        const found = await completionLists[what](await context.openApi(configDir));
        for (const text of new Set(found)) {
          if (plainText.test(text) && !text.startsWith('-')) await printLine(context.stdout, text);
        }
      },
    );
}
