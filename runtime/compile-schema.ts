import type { StaticEncode, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';

/** A compiled check of values against a schema. */
export type SchemaCheck<Schema extends TSchema> = Pick<
  Validator<Record<never, never>, Schema>,
  'Check' | 'Errors' | 'Parse' | 'Type'
>;

/**
 * Compiles a schema when it is first used. A program uses only a few of the schemas that it loads,
 * and compiling all of them would take longer than loading them.
 */
export function compileSchema<const Schema extends TSchema>(schema: Schema): SchemaCheck<Schema> {
  let compiled: Validator<Record<never, never>, Schema> | undefined;
  const validator = (): Validator<Record<never, never>, Schema> => {
    compiled ??= Compile(schema);
    return compiled;
  };
  return {
    Check: (value: unknown): value is StaticEncode<Schema, Record<never, never>> =>
      validator().Check(value),
    Type: () => schema,
    Parse: (value) => validator().Parse(value),
    Errors: (value) => validator().Errors(value),
  };
}
