//! Reads frames: their calls, their present lines, and the locks that they hold.

use super::layout::{self, FrameLayout, InternalFrame, ObjectFrame};
use super::{Interpreter, PythonCall, code};

/// Limit of values of one frame that are searched for locks.
const VALUES: u64 = 64;

/// Owner of a frame that stands for a C call.
const OWNED_BY_C: u8 = 3;

/// Values on the stack of a frame.
struct StackValues {
    /// The address of the first.
    start: u64,
    count: u64,
}

impl Interpreter<'_> {
    /// Returns whether a frame stands for a C call.
    pub(super) fn is_of_c(&self, frame: u64) -> bool {
        match self.layout.frame {
            FrameLayout::Internal(layout) => {
                self.memory.byte(frame, layout.owner) == Some(OWNED_BY_C)
            }
            FrameLayout::Object(_) => false,
        }
    }

    /// Returns the call of a frame, and the locks that its `with` statements hold.
    pub(super) fn read_frame(&self, frame: u64) -> Option<(PythonCall, Vec<u64>)> {
        let layout = &self.layout;
        let code = self.memory.word(frame, layout.code)?;
        let unit = self.present_unit(frame, code)?;
        let first_line = self.memory.half(code, layout.first_line)?;
        let lines = self.bytes_object(self.memory.word(code, layout.line_table)?)?;
        let line = layout.line_format.line_of_unit(&lines, first_line, unit);
        let call = PythonCall {
            function: self.text(self.memory.word(code, layout.function)?)?,
            file: self.text(self.memory.word(code, layout.file)?)?,
            line: line.unwrap_or(first_line),
        };
        let locks = self.held_locks(frame, code, unit).unwrap_or_default();
        Some((call, locks))
    }

    /// Returns the code unit that a frame executes; before its first instruction, -1.
    fn present_unit(&self, frame: u64, code: u64) -> Option<i64> {
        match self.layout.frame {
            FrameLayout::Internal(layout) => {
                let instruction = self.memory.word(frame, layout.instruction)?;
                // Before its first instruction, a frame of 3.11 and 3.12 is one code unit before the code.
                let offset = instruction.wrapping_sub(code.wrapping_add(layout.instructions));
                Some(offset.cast_signed() / 2)
            }
            FrameLayout::Object(layout) => {
                let last = self.memory.half(frame, layout.last_instruction)?;
                Some(last.cast_signed().div_euclid(layout.unit).into())
            }
        }
    }

    /// Returns the locks whose `__exit__` a frame keeps until the end of a `with` statement.
    fn held_locks(&self, frame: u64, code: u64, unit: i64) -> Option<Vec<u64>> {
        let StackValues { start, count } = match &self.layout.frame {
            FrameLayout::Internal(layout) => {
                self.values_of_internal_frame(layout, frame, code, unit)
            }
            FrameLayout::Object(layout) => self.values_of_frame_object(layout, frame),
        }?;
        let values = (0..count.min(VALUES)).filter_map(|index| self.memory.word(start, index * 8));
        Some(
            values
                .filter_map(|value| self.lock_of_exit(value))
                .collect(),
        )
    }

    /// Returns the values that the handler of the present instruction needs. They are on the stack for certain; values above
    /// them may be left from earlier.
    fn values_of_internal_frame(
        &self,
        layout: &InternalFrame,
        frame: u64,
        code: u64,
        unit: i64,
    ) -> Option<StackValues> {
        let handlers = self.bytes_object(self.memory.word(code, layout.handlers)?)?;
        Some(StackValues {
            start: self.stack_start(layout, frame, code)?,
            count: code::depth_of_handler(&handlers, unit)?,
        })
    }

    /// Returns the values that the innermost active handler needs.
    fn values_of_frame_object(&self, layout: &ObjectFrame, frame: u64) -> Option<StackValues> {
        let blocks = u64::from(self.memory.half(frame, layout.block_count)?);
        let innermost = layout.blocks + blocks.checked_sub(1)? * layout::BLOCK_SIZE;
        let depth = self.memory.half(frame, innermost + layout::BLOCK_DEPTH)?;
        Some(StackValues {
            start: self.memory.word(frame, layout.values)?,
            count: depth.into(),
        })
    }

    /// Returns the address of the first value on the stack of a frame, behind its local variables.
    fn stack_start(&self, layout: &InternalFrame, frame: u64, code: u64) -> Option<u64> {
        let locals = u64::from(self.memory.half(code, layout.local_count)?);
        frame.checked_add(layout.locals + locals * 8)
    }

    /// Returns the thread of 3.13 whose handle the frame of `Thread.join` waits for: during a call, its object and its
    /// arguments are on the stack.
    pub(super) fn joined_pthread(&self, frame: u64) -> Option<u64> {
        let FrameLayout::Internal(layout) = &self.layout.frame else {
            return None;
        };
        let code = self.memory.word(frame, self.layout.code)?;
        let start = self.stack_start(layout, frame, code)?;
        let mut values = (0..2).filter_map(|index| self.memory.word(start, index * 8));
        let is_handle =
            |value: &u64| self.type_name(*value).as_deref() == Some("_thread._ThreadHandle");
        let handle = self.memory.word(values.find(is_handle)?, layout::HANDLE)?;
        self.memory.word(handle, layout::HANDLE_PTHREAD)
    }

    /// Returns the lock of a bound method `__exit__`.
    fn lock_of_exit(&self, value: u64) -> Option<u64> {
        if self.type_name(value)? != "builtin_function_or_method" {
            return None;
        }
        let object = self.memory.word(value, layout::METHOD_SELF)?;
        let is_lock = matches!(&*self.type_name(object)?, "_thread.lock" | "_thread.RLock");
        is_lock.then(|| self.memory.word(object, layout::LOCK))?
    }
}
