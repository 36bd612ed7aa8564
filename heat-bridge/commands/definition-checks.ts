/** Validates the function, the arguments and the secrets of a command's definition. */

import { type ArgumentSources, parametersOfArgument, secretsKeyword } from './argument-mapping.ts';
import { type CommandDefinition, catalogError, keywordForm } from './command-definition.ts';
import { type FunctionReview, reviewedFunctionOf } from './function-lists.ts';

/** Keywords that Salt itself interprets. */
const reservedKeywords: ReadonlySet<string> = new Set([
  'runas',
  'password_file',
  'concurrent',
  'queue',
  'python_shell',
  'shell',
]);

/**
 * Validates the definition of a command, except its schemas.
 * @param names - names of the command's parameters
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
  // With `install`, parameters only supply data, so every parameter is safe.
  if (install !== undefined) return;
  // The state file is on the master, but the operator must have reviewed how the file uses the
  // parameters.
  if (state !== undefined) {
    if (reviewed !== undefined) return;
    throw catalogError(name, 'reviewed', 'required: state why callers may apply this state file');
  }
  if (standing.kind === 'unsafe' && unsafe === undefined) {
    const problem = `${fun} executes its arguments or writes them to files; choose another function, or set unsafe: i-understand`;
    throw catalogError(name, 'unsafe', problem);
  }
  if (standing.kind === 'unknown' && reviewed === undefined) {
    throw catalogError(
      name,
      'reviewed',
      `${fun} is not in saltbridge's list of safe functions; set the field \`reviewed\` to the reason why callers may run it`,
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
    throw catalogError(
      name,
      'arguments',
      'not permitted together with `install`; refer to parameters inside `install` instead',
    );
  }
  const known =
    reviewed === undefined && unsafe === undefined ? reviewedFunctionOf(standing) : undefined;
  for (const [keyword, source] of Object.entries(sources)) {
    const field = `arguments.${keyword}`;
    if (!keywordForm.test(keyword))
      throw catalogError(
        name,
        field,
        'not a valid name for a keyword argument: use letters, digits and _, and do not begin with a digit or __',
      );
    if (state === undefined && reservedKeywords.has(keyword) && unsafe === undefined) {
      throw catalogError(
        name,
        field,
        'Salt uses this keyword to control execution; choose another one, or set unsafe: i-understand',
      );
    }
    const missing = parametersOfArgument(source).find((it) => !names.includes(it));
    if (missing !== undefined)
      throw catalogError(
        name,
        field,
        `unknown parameter ${missing}: the command does not define this parameter`,
      );
    if (known !== undefined && !known.isOpen && !known.keywords.has(keyword)) {
      throw catalogError(
        name,
        field,
        "saltbridge's list of safe functions does not permit this keyword; set the field `reviewed` to the reason why callers may use it",
      );
    }
  }
  const used = new Set(Object.values(sources).flatMap(parametersOfArgument));
  const unused = names.find((it) => !used.has(it));
  // A state file receives secrets in the pillar, so they need no argument.
  if (unused !== undefined && state === undefined) {
    throw catalogError(
      name,
      `parameters.${unused}`,
      'no argument uses this parameter; remove the parameter, or refer to it in `arguments`',
    );
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
      'not permitted for a function: every minion can read the arguments of a published job; ' +
      'use a state file or install, which receive secrets as pillar';
    throw catalogError(name, 'secret', problem);
  }
  const missing = secret.find((it) => !names.includes(it));
  if (missing !== undefined)
    throw catalogError(
      name,
      'secret',
      `unknown parameter ${missing}: the command does not define this parameter`,
    );
  const leaked = Object.values(sources)
    .flatMap(parametersOfArgument)
    .find((it) => secret.includes(it));
  if (leaked !== undefined)
    throw catalogError(
      name,
      'arguments',
      `the parameter ${leaked} is secret, so no argument may use it; read it from the pillar`,
    );
  if (Object.hasOwn(sources, secretsKeyword))
    throw catalogError(name, 'arguments', `the argument name ${secretsKeyword} is reserved`);
}
