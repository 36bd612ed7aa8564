import { TemplateError } from '../../template/index.ts';
import { MasterError } from '../errors.ts';

/**
 * What is wrong with a file, for whoever may know.
 * @throws what is no fault of the file
 */
export function reasonOf(error: unknown): string {
  if (error instanceof TemplateError || error instanceof MasterError) return error.message;
  throw error;
}
