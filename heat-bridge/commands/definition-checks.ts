/** Validation of the function, the arguments and the secrets of a definition. */

import { type ArgumentSources, parametersOfArgument, secretsKeyword } from './argument-mapping.ts';
import { type CommandDefinition, catalogError, keywordForm } from './command-definition.ts';
import { type FunctionReview, reviewedFunctionOf } from './function-lists.ts';

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
export function checkCommandDefinition(
  definition: CommandDefinition,
  sources: ArgumentSources,
  names: readonly string[],
  standing: FunctionReview,
): void {
  checkFunctionReview(definition, standing);
  checkSecrets(definition, names, sources);
  checkSources(definition, sources, names, standing);
}

function checkFunctionReview(definition: CommandDefinition, standing: FunctionReview): void {
  const { name, function: fun, reviewed, unsafe, state, install } = definition;
  // Nothing of a caller's is more than a value there.
  if (install !== undefined) return;
  // A state file is the master's own; what it makes of parameters somebody must have looked at.
  if (state !== undefined) {
    if (reviewed !== undefined) return;
    throw catalogError(name, 'reviewed', 'expected why this state file may be exposed');
  }
  if (standing.kind === 'unsafe' && unsafe === undefined) {
    const problem = `${fun} runs or writes what it is handed; choose another function, or say i-understand`;
    throw catalogError(name, 'unsafe', problem);
  }
  if (standing.kind === 'unknown' && reviewed === undefined) {
    throw catalogError(
      name,
      'reviewed',
      `${fun} is not in the shipped list; say why it may be exposed`,
    );
  }
}

function checkSources(
  { name, reviewed, state, unsafe, install, arguments: given }: CommandDefinition,
  sources: ArgumentSources,
  names: readonly string[],
  standing: FunctionReview,
): void {
  if (install !== undefined) {
    if (given === undefined) return;
    throw catalogError(name, 'arguments', 'install names its parameters itself');
  }
  const known =
    reviewed === undefined && unsafe === undefined ? reviewedFunctionOf(standing) : undefined;
  for (const [keyword, source] of Object.entries(sources)) {
    const field = `arguments.${keyword}`;
    if (!keywordForm.test(keyword))
      throw catalogError(name, field, 'expected a keyword of the function');
    if (state === undefined && reservedKeywords.has(keyword) && unsafe === undefined) {
      throw catalogError(name, field, 'this keyword chooses how commands are run; say unsafe');
    }
    const missing = parametersOfArgument(source).find((it) => !names.includes(it));
    if (missing !== undefined) throw catalogError(name, field, `there is no parameter ${missing}`);
    if (known !== undefined && !known.isOpen && !known.keywords.has(keyword)) {
      throw catalogError(name, field, 'the shipped list does not have this keyword; say reviewed');
    }
  }
  const used = new Set(Object.values(sources).flatMap(parametersOfArgument));
  const unused = names.find((it) => !used.has(it));
  // A secret goes another way.
  if (unused !== undefined && state === undefined) {
    throw catalogError(name, `parameters.${unused}`, 'no argument has this parameter');
  }
}

function checkSecrets(
  { name, secret = [], state, install }: CommandDefinition,
  names: readonly string[],
  sources: ArgumentSources,
): void {
  if (secret.length === 0) return;
  if (state === undefined && install === undefined) {
    const problem =
      'a publication can be read by every minion, and a function takes nothing from its pillar; ' +
      'use a state file, or install';
    throw catalogError(name, 'secret', problem);
  }
  const missing = secret.find((it) => !names.includes(it));
  if (missing !== undefined) throw catalogError(name, 'secret', `there is no parameter ${missing}`);
  const told = Object.values(sources)
    .flatMap(parametersOfArgument)
    .find((it) => secret.includes(it));
  if (told !== undefined) throw catalogError(name, 'arguments', `${told} is secret`);
  if (Object.hasOwn(sources, secretsKeyword))
    throw catalogError(name, 'arguments', `${secretsKeyword} is ours`);
}
