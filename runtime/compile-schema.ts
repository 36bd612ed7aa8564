import type { Static, TSchema } from 'typebox';
import type { TLocalizedValidationError } from 'typebox/error';
// `typebox/compile` has the same checks, and also loads 146 modules for conversions.
import { Compile, type Validator } from 'typebox/schema';
import { schemaErrors } from './schema-errors.ts';

/** A compiled check of values against a schema. */
export interface SchemaCheck<Schema extends TSchema> {
  Check(value: unknown): value is Static<Schema>;
  /** Returns the mistakes in a value. Empty if the value matches the schema. */
  Errors(value: unknown): readonly TLocalizedValidationError[];
  /**
   * Returns the value.
   * @throws TypeError if the value does not match the schema
   */
  Parse(value: unknown): Static<Schema>;
  Type(): Schema;
}

/**
 * Compiles a schema when it is first used. A program uses only a few of the schemas that it loads,
 * and compiling all of them would take longer than loading them.
 */
export function compileSchema<const Schema extends TSchema>(schema: Schema): SchemaCheck<Schema> {
  let compiled: Validator<Schema> | undefined;
  const validator = (): Validator<Schema> => {
    compiled ??= Compile(schema);
    return compiled;
  };
  const check = (value: unknown): value is Static<Schema> => validator().Check(value);
  const errors = (value: unknown): readonly TLocalizedValidationError[] =>
    schemaErrors(validator(), schema, value);
  return {
    Check: check,
    Errors: errors,
    Type: () => schema,
    Parse: (value) => {
      if (check(value)) return value;
      const [first] = errors(value);
      throw new TypeError(`${first?.instancePath}: ${first?.message}`);
    },
  };
}
