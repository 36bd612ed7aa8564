export { ArgumentReader, isReaderBusy } from './argument-reader.ts';
export {
  badTarget,
  compileRightTarget,
  type FunctionArguments,
  fromJson,
  isFunctionName,
  isKeywordText,
  keywordNameOf,
  markedForm,
  markedJson,
  maxPlainDepth,
  parseArgument,
  parseArguments,
  parseTarget,
  parseUnexpanded,
  readMarkedJson,
  toJson,
  toPlainValue,
  writeMarkedJson,
} from './arguments.ts';
export { isPlainYamlText, parseYaml } from './yaml.ts';
