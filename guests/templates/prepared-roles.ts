/** Roles of a compiled template, from which its data space and enrolments are created. */

import Type from 'typebox';
import { parseForm } from '#heat-bridge';
import { compileSchema } from '#runtime';
import type { DataSpaceRegistration } from '../data-spaces/data-spaces.ts';
import { roleFields, roleNameSchema } from '../data-spaces/roles.ts';
import type { CompiledTemplate, CompileOptions } from './compile-template.ts';

/**
 * Roles and machines of a compiled template, from which its data space and enrolments are created.
 */
export type PreparedRoles = Pick<CompiledTemplate, 'machines' | 'roles'> & Required<CompileOptions>;

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 255 });
const preparedCheck = compileSchema(
  Type.Unsafe<PreparedRoles>(
    Type.Object(
      {
        format: Type.Union([Type.Literal('cloud-init'), Type.Literal('shell')]),
        configDir: Text,
        roles: Type.Record(roleNameSchema, Type.Object(roleFields, strict), strict),
        machines: Type.Array(
          Type.Object({ resource: Text, role: Text, parameter: Type.Optional(Text) }, strict),
          { maxItems: 10_000 },
        ),
      },
      strict,
    ),
  ),
);

/**
 * Parses prepared roles.
 * @throws BridgeError ERR_DATA_FORM
 */
export function parsePreparedRoles(given: unknown): PreparedRoles {
  return parseForm(preparedCheck, given, 'ERR_DATA_FORM', 'the roles');
}

/**
 * Returns the registration of a stack's data space.
 * @param idOf - returns the minion id of a machine
 */
export function spaceOf(
  stack: string,
  { roles, machines }: Pick<PreparedRoles, 'machines' | 'roles'>,
  idOf: (machine: PreparedRoles['machines'][number]) => string,
): DataSpaceRegistration {
  return {
    name: stack,
    roles: Object.fromEntries(
      Object.entries(roles).map(([name, role]) => {
        const own = machines.filter((machine) => machine.role === name);
        return [name, { ...role, minions: own.map(idOf) }];
      }),
    ),
  };
}
