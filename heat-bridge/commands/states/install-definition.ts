/**
 * Field `install:` of a command: the desired content of a machine, as ordered groups. The operator
 * writes it in the catalog. Parameters only supply values, and never code, paths or names.
 */

import { BridgeError } from '../../errors.ts';
import { catalogError, isPlainMap } from '../command-definition.ts';
import type { Parameters } from '../parameters.ts';
import { compileStates } from './compile-states.ts';
import { ContentBudget } from './content-budget.ts';
import { requireMap } from './forms.ts';
import { type JsonMap, parseGroup } from './install-group.ts';
import type { CompiledStates } from './state-data.ts';

/** Groups of an `install:` definition, as the catalog contains them. */
export type InstallDefinition = readonly JsonMap[];

/**
 * Returns the states for given parameters.
 * @throws BridgeError ERR_COMMAND_PARAMETERS
 */
export type CompiledInstall = (parameters: Parameters) => CompiledStates;

/**
 * Compiles the groups of an `install:` definition. Validates everything except the values of
 * parameters.
 * @param names - names of the parameters
 * @throws BridgeError ERR_CATALOG
 */
export function compileInstall(
  command: string,
  groups: InstallDefinition,
  names: readonly string[],
): CompiledInstall {
  const used = new Set(groups.flatMap((group, at) => parametersIn(command, group, [String(at)])));
  const missing = [...used].find((it) => !names.includes(it));
  if (missing !== undefined)
    throw catalogError(
      command,
      'install',
      `refers to the parameter ${missing}, which the field \`parameters\` does not declare`,
    );
  const unused = names.find((it) => !used.has(it));
  if (unused !== undefined) {
    throw catalogError(
      command,
      `parameters.${unused}`,
      '`install` does not use this parameter; remove the parameter, or refer to it in `install`',
    );
  }
  const compile: CompiledInstall = (parameters) => {
    const budget = new ContentBudget();
    return compileStates(
      groups.map((group) =>
        parseGroup(requireMap(withValues(group, parameters), 'install'), budget),
      ),
    );
  };
  // Compile with sample values to find errors. One letter is a valid value at every path that
  // permits a parameter.
  const sample = Object.fromEntries(names.map((name) => [name, 'x']));
  orElse('ERR_CATALOG', command, () => compile(sample));
  // A run needs the states twice: when its parameters are validated, and when its job is published.
  const compiled = new WeakMap<Parameters, CompiledStates>();
  return (parameters) => {
    const known = compiled.get(parameters);
    if (known !== undefined) return known;
    const states = orElse('ERR_COMMAND_PARAMETERS', command, () => compile(parameters));
    compiled.set(parameters, states);
    return states;
  };
}

function orElse<T>(
  code: 'ERR_CATALOG' | 'ERR_COMMAND_PARAMETERS',
  command: string,
  work: () => T,
): T {
  try {
    return work();
  } catch (cause) {
    if (!(cause instanceof BridgeError) || cause.code !== 'ERR_CFN_INIT') throw cause;
    throw new BridgeError(
      code,
      `the field \`install\` of the command ${command} is invalid: ${cause.message}`,
      { cause },
    );
  }
}

/**
 * Paths of the fields in an `install:` definition whose value may be a parameter. They include the
 * arguments of a program, but never the program itself.
 */
const valuePlaces: readonly RegExp[] = [
  /^\d+\/packages\/\d+\/version$/,
  /^\d+\/files\/\d+\/(?:content|variables)(?:\/|$)/,
  /^\d+\/scripts\/\d+\/command\/[1-9]\d*$/,
  /^\d+\/scripts\/\d+\/env\/[^/]+$/,
];

/**
 * Returns the name of the parameter to insert, or `undefined` if the value is not a reference to a
 * parameter.
 */
function parameterOf(value: unknown): string | undefined {
  if (!isPlainMap(value) || typeof value.parameter !== 'string') return undefined;
  return Object.keys(value).length === 1 ? value.parameter : undefined;
}

/**
 * Returns the names of the parameters to which a value refers.
 * @throws BridgeError ERR_CATALOG for a parameter at a path where none is permitted
 */
function parametersIn(command: string, value: unknown, path: readonly string[]): string[] {
  const name = parameterOf(value);
  if (name !== undefined) {
    if (valuePlaces.some((it) => it.test(path.join('/')))) return [name];
    throw catalogError(
      command,
      `install.${path.join('.')}`,
      'a parameter is not permitted here; use it as the version of a package, the content or variables of a file, or in the arguments or env of a script',
    );
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => parametersIn(command, one, [...path, key]));
}

/**
 * Replaces references to parameters with their values. If a parameter was not given, omits the
 * member that refers to it.
 */
function withValues(value: unknown, parameters: Parameters): unknown {
  const name = parameterOf(value);
  if (name !== undefined) return Object.hasOwn(parameters, name) ? parameters[name] : undefined;
  if (Array.isArray(value)) {
    return value.map((it) => withValues(it, parameters)).filter((it) => it !== undefined);
  }
  if (!isPlainMap(value)) return value;
  const entries = Object.entries(value).map(([key, it]) => [key, withValues(it, parameters)]);
  return Object.fromEntries(entries.filter(([, it]) => it !== undefined));
}
