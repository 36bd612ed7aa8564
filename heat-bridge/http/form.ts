/** Bodies by their schema. */
import { BridgeError } from '../errors.ts';

/** A schema that was compiled. */
interface Form<T> {
  Errors(value: unknown): readonly {
    readonly instancePath: string;
    readonly keyword: string;
    readonly message: string;
  }[];
  Parse(value: unknown): T;
}

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
export function readForm<T>(form: Form<T>, body: unknown): T {
  const [first] = form.Errors(body);
  if (first === undefined) return form.Parse(body);
  // What no schema describes is measured against the schema `false`; its name is the caller's.
  const isUnknown = first.keyword === 'boolean';
  const place = isUnknown ? 'a field' : first.instancePath.split('/')[1] || 'the body';
  const problem = isUnknown ? 'there is no such field' : first.message;
  throw new BridgeError('ERR_COMMAND_PARAMETERS', `${place}: ${problem}`);
}
