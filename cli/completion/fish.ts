import {
  allCommands,
  type CompletionCommand,
  type CompletionKind,
  type CompletionOption,
} from './tree.ts';

/** A script for fish; see {@link bashCompletion} for what is offered. */
export function fishCompletion(program: CompletionCommand): string {
  const commands = allCommands(program);
  const paths = commands.flatMap(({ path }) => (path.length === 0 ? [] : [quote(path.join(' '))]));
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
${commands.flatMap(linesOf).join('\n')}
`;
}

function linesOf(command: CompletionCommand): string[] {
  const start = `complete -c saltbridge -n ${quote(
    `test (__saltbridge_command) = "${command.path.join(' ')}"`,
  )}`;
  return [
    ...command.commands.map(
      ({ path, description }) => `${start} -a ${quote(path.at(-1) ?? '')} -d ${quote(description)}`,
    ),
    ...command.options.map((option) => `${start} ${optionText(option)}`),
    ...[...new Set(command.arguments.map(valueText))]
      .filter((value) => value !== '')
      .map((value) => `${start} ${value}`),
  ];
}

function optionText({ flags, description, value }: CompletionOption): string {
  const names = flags.map((flag) =>
    flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
  );
  const takes = value === undefined ? [] : ['-r', valueText(value)];
  return [...names, ...takes, `-d ${quote(description)}`].filter((part) => part !== '').join(' ');
}

function valueText(kind: CompletionKind): string {
  if (typeof kind === 'object') return `-a ${quote(kind.words.join(' '))}`;
  if (kind === 'any') return '';
  return kind === 'files' ? '-F' : `-a ${quote(`(__saltbridge_list ${kind})`)}`;
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
