/** Whether a definition says what it must, of its function, its arguments and its secrets. */

import { parametersIn, type Sources, secretsKey } from './argument-values.ts';
import { type CommandDefinition, keywordForm, refuse } from './definition.ts';
import { type FunctionStanding, listed } from './function-lists.ts';

/** Keywords that Salt itself looks at before or instead of the function. */
const reservedKeywords: ReadonlySet<string> = new Set([
  'runas',
  'password_file',
  'concurrent',
  'queue',
  'python_shell',
  'shell',
]);

/**
 * Looks at everything but the schemas.
 * @param names - of the parameters
 * @throws BridgeError ERR_CATALOG
 */
export function checkDefinition(
  definition: CommandDefinition,
  sources: Sources,
  names: readonly string[],
  standing: FunctionStanding,
): void {
  checkStanding(definition, standing);
  checkSecrets(definition, names, sources);
  checkSources(definition, sources, names, standing);
}

function checkStanding(definition: CommandDefinition, standing: FunctionStanding): void {
  const { name, function: fun, reviewed, unsafe, state } = definition;
  // A state file is the master's own; what it makes of parameters somebody must have looked at.
  if (state !== undefined) {
    if (reviewed !== undefined) return;
    throw refuse(name, 'reviewed', 'expected why this state file may be exposed');
  }
  if (standing.kind === 'unsafe' && unsafe === undefined) {
    const problem = `${fun} runs or writes what it is handed; choose another function, or say i-understand`;
    throw refuse(name, 'unsafe', problem);
  }
  if (standing.kind === 'unknown' && reviewed === undefined) {
    throw refuse(name, 'reviewed', `${fun} is not in the shipped list; say why it may be exposed`);
  }
}

function checkSources(
  { name, reviewed, state, unsafe }: CommandDefinition,
  sources: Sources,
  names: readonly string[],
  standing: FunctionStanding,
): void {
  const known = reviewed === undefined && unsafe === undefined ? listed(standing) : undefined;
  for (const [keyword, source] of Object.entries(sources)) {
    const field = `arguments.${keyword}`;
    if (!keywordForm.test(keyword)) throw refuse(name, field, 'expected a keyword of the function');
    if (state === undefined && reservedKeywords.has(keyword) && unsafe === undefined) {
      throw refuse(name, field, 'this keyword chooses how commands are run; say unsafe');
    }
    const missing = parametersIn(source).find((it) => !names.includes(it));
    if (missing !== undefined) throw refuse(name, field, `there is no parameter ${missing}`);
    if (known !== undefined && !known.isOpen && !known.keywords.has(keyword)) {
      throw refuse(name, field, 'the shipped list does not have this keyword; say reviewed');
    }
  }
  const used = new Set(Object.values(sources).flatMap(parametersIn));
  const unused = names.find((it) => !used.has(it));
  // A secret goes another way.
  if (unused !== undefined && state === undefined) {
    throw refuse(name, `parameters.${unused}`, 'no argument has this parameter');
  }
}

function checkSecrets(
  { name, secret = [], state }: CommandDefinition,
  names: readonly string[],
  sources: Sources,
): void {
  if (secret.length === 0) return;
  if (state === undefined) {
    const problem =
      'a publication can be read by every minion, and a function takes nothing from its pillar; ' +
      'use a state file';
    throw refuse(name, 'secret', problem);
  }
  const missing = secret.find((it) => !names.includes(it));
  if (missing !== undefined) throw refuse(name, 'secret', `there is no parameter ${missing}`);
  const told = Object.values(sources)
    .flatMap(parametersIn)
    .find((it) => secret.includes(it));
  if (told !== undefined) throw refuse(name, 'arguments', `${told} is secret`);
  if (Object.hasOwn(sources, secretsKey)) throw refuse(name, 'arguments', `${secretsKey} is ours`);
}
