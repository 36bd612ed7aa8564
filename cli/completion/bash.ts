import { allCommands, type CompletionCommand, type CompletionKind } from './tree.ts';

/**
 * A script for bash. Ids come from the running master; the shell never expands them, and only
 * those are offered that no shell takes for anything but text.
 */
export function bashCompletion(program: CompletionCommand): string {
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

/** The same, by zsh's own emulation of bash's completion. */
export function zshCompletion(program: CompletionCommand): string {
  return `autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bashCompletion(program)}`;
}

function commandWords({ path, commands }: CompletionCommand): string {
  const names = commands.map((command) => command.path.at(-1) ?? '');
  return `    ${quote(path.join(' '))}) echo ${quote(names.join(' '))} ;;`;
}

function commandFlags({ path, options }: CompletionCommand): string {
  const flags = options.flatMap((option) => option.flags);
  return `    ${quote(path.join(' '))}) echo ${quote(flags.join(' '))} ;;`;
}

function valueCases({ path, options }: CompletionCommand): string[] {
  return options.flatMap(({ flags, value }) => {
    if (value === undefined) return [];
    const patterns = flags.map((flag) => quote(`${path.join(' ')}|${flag}`));
    return [`    ${patterns.join(' | ')}) kind=${quote(kindText(value))} ;;`];
  });
}

function argumentCases({ path, arguments: places }: CompletionCommand): string[] {
  return places.map(
    (kind, place) => `    ${quote(`${path.join(' ')}|${place}`)}) kind=${quote(kindText(kind))} ;;`,
  );
}

function kindText(kind: CompletionKind): string {
  return typeof kind === 'string' ? kind : `words:${kind.words.join(' ')}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
